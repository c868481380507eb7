"""`potluck provide` as a process: what it says, how it ends, and what kill -9 cannot do."""

import asyncio
import os
import signal
import socket
from pathlib import Path

import psutil

from potluck.model.task import EndReason
from tests.provider.builders import a_grant, lease_of
from tests.provider.fake_server import FakeServer
from tests.provider.process import provider_process

ENDLESS = "import time\nprint('before the crash')\ntime.sleep(600)"


async def test_a_life_in_good_order(server: FakeServer, tmp_path: Path) -> None:
    grant = a_grant("print('hello')")
    async with provider_process(
        server.url, tmp_path, "--name", "box", "--price", "0.5"
    ) as provider:
        registered_event = await provider.event("registered")
        await server.offer(grant)
        finished = await provider.event("attempt_finished")
        await server.outcome(grant.attempt_id)
        assert await provider.end(signal.SIGTERM) == 0
    assert provider.said[0] == registered_event
    assert server.left == [registered_event["node_id"]]
    assert registered_event["devices"][0]["terms"]["price_micro_per_hour"] == 500_000
    assert registered_event["sandbox"]["driver"] == "bwrap"
    assert finished["reason"] == "completed"
    assert [event["event"] for event in provider.said] == [
        "registered",
        "attempt_started",
        "attempt_finished",
        "stopped",
    ]
    assert server.registrations[0].description.name == "box"
    assert not server.registrations[0].own_tasks_only


async def test_kill_9_in_the_middle_of_a_task(server: FakeServer, tmp_path: Path) -> None:
    grant, next_one = a_grant(ENDLESS), a_grant("print('after')")
    async with provider_process(server.url, tmp_path) as provider:
        node_id = (await provider.event("registered"))["node_id"]
        await server.offer(grant)
        await server.until(lambda: bool(server.logs.get(grant.attempt_id)), "a line of log")
        sandboxed = psutil.Process(provider.pid).children(recursive=True)
        assert sandboxed
        await provider.end(signal.SIGKILL)
        await until_gone(sandboxed)
    async with provider_process(server.url, tmp_path) as provider:
        assert (await provider.event("registered"))["node_id"] == node_id
        lost_outcome = await server.outcome(grant.attempt_id)
        await server.offer(next_one)
        after = await server.outcome(next_one.attempt_id)
    assert lost_outcome.reason is EndReason.NODE_RESTARTED
    assert after.reason is EndReason.COMPLETED
    assert server.text(grant.attempt_id) == "before the crash\n"
    assert len(server.finished(grant.attempt_id)) == 1


async def test_kill_9_with_an_outcome_that_the_server_does_not_have(
    server: FakeServer, tmp_path: Path
) -> None:
    grant = a_grant("print('one')\nprint('two')\nraise SystemExit(7)")
    async with provider_process(server.url, tmp_path) as provider:
        await provider.event("registered")
        await server.offer(grant)
        await provider.event("attempt_started")
        server.is_silent = True
        await provider.event("attempt_finished")
        await provider.end(signal.SIGKILL)
    assert server.finished(grant.attempt_id) == []
    server.is_silent = False
    async with provider_process(server.url, tmp_path) as provider:
        await provider.event("registered")
        finished = await server.outcome(grant.attempt_id)
        await server.until(
            lambda: any(heartbeat.held == () for heartbeat in server.beats), "an empty hand"
        )
    assert (finished.reason, finished.exit_code) == (EndReason.EXIT_STATUS, 7)
    assert server.text(grant.attempt_id) == "one\ntwo\n"
    assert lease_of(grant) in [lease for poll in server.polls for lease in poll.held]


async def test_a_second_provider_in_the_same_directory_is_told_what_to_do(
    server: FakeServer, tmp_path: Path
) -> None:
    async with provider_process(server.url, tmp_path) as first:
        await first.event("registered")
        async with provider_process(server.url, tmp_path) as second:
            assert await second.exit_status() == 69
        assert second.said[-1]["error"]["code"] == "data_directory_in_use"
        async with provider_process(server.url, tmp_path / "other") as third:
            own_event = await third.event("registered")
    assert own_event["devices"][0]["uuid"] != first.said[0]["devices"][0]["uuid"]


async def test_no_server_and_no_right_are_clear_sentences(
    server: FakeServer, tmp_path: Path
) -> None:
    with socket.socket() as taken_socket:
        taken_socket.bind(("127.0.0.1", 0))
        unreachable_url = f"http://127.0.0.1:{taken_socket.getsockname()[1]}"
        async with provider_process(unreachable_url, tmp_path / "one") as provider:
            assert await provider.exit_status() == 69
    assert provider.said[-1]["error"]["code"] == "server_unreachable"
    assert "potluck up" in provider.said[-1]["error"]["hint"]
    server.takes_keys = False
    async with provider_process(server.url, tmp_path / "two") as provider:
        assert await provider.exit_status() == 77
    assert provider.said[-1]["error"]["code"] == "node_key_refused"
    assert "--authorise" in provider.said[-1]["error"]["hint"]


async def test_a_key_that_is_revoked_ends_the_provider_with_a_sentence(
    server: FakeServer, tmp_path: Path
) -> None:
    grant = a_grant(ENDLESS)
    async with provider_process(server.url, tmp_path) as provider:
        await provider.event("registered")
        await server.offer(grant)
        await provider.event("attempt_started")
        sandboxed = psutil.Process(provider.pid).children(recursive=True)
        server.takes_keys = False
        server.tokens.clear()
        assert await provider.exit_status() == 77
        await until_gone(sandboxed)
    assert provider.said[-1]["error"]["code"] == "node_key_refused"
    assert "revoked" in provider.said[-1]["error"]["detail"]


async def test_a_second_ctrl_c_ends_at_once(server: FakeServer, tmp_path: Path) -> None:
    grant = a_grant("print('done')")
    async with provider_process(server.url, tmp_path) as provider:
        await provider.event("registered")
        await server.offer(grant)
        await provider.event("attempt_started")
        # With the server silent, the first one waits for the outcome to travel.
        server.is_silent = True
        await provider.event("attempt_finished")
        os.kill(provider.pid, signal.SIGINT)
        calls = server.calls
        while server.calls < calls + 2:
            await asyncio.sleep(0.01)
        assert await provider.end(signal.SIGINT) == 130


async def test_a_provider_whose_listener_has_gone_ends_in_good_order(
    server: FakeServer, tmp_path: Path
) -> None:
    grant = a_grant("print('heard by nobody')")
    async with provider_process(server.url, tmp_path) as provider:
        await provider.event("registered")
        provider.close_stdout()
        await server.offer(grant)
        await server.until(lambda: bool(server.left), "goodbye")
        assert await provider.wait() == 0


async def until_gone(processes: list[psutil.Process]) -> None:
    async with asyncio.timeout(30):
        while any(process.is_running() and process.status() != "zombie" for process in processes):
            await asyncio.sleep(0.01)
