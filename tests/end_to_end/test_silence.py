"""Server or node are away for longer than a lease: what ran on is taken back, or let go."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from potluck.model.lease import AttemptState
from tests.end_to_end.database_check import check_truth
from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess, await_true

LEASE_SECONDS = 2.0
SLOW = "import time\nprint('begun', flush=True)\ntime.sleep({seconds})\nprint('done')\n"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def server_at(directory: Path, port: int = 0) -> ServerProcess:
    """Its leases are shorter than the outages below; who is silent gets no work before that."""
    return ServerProcess(
        directory,
        port,
        POTLUCK_LEASE_SECONDS=str(LEASE_SECONDS),
        POTLUCK_SILENT_AFTER_SECONDS=str(LEASE_SECONDS / 2),
        POTLUCK_HEARTBEAT_SECONDS="0.2",
    )


@pytest.mark.parametrize(
    ("seconds", "end"),
    [
        pytest.param(2.0, ServerProcess.kill, id="it ends meanwhile"),
        pytest.param(8.0, ServerProcess.kill, id="it runs on", marks=pytest.mark.long),
        pytest.param(2.0, ServerProcess.stop, id="stopped in good order", marks=pytest.mark.long),
    ],
)
def test_a_server_that_is_away_for_longer_than_a_lease_finds_the_work_done(
    tmp_path: Path, stack: ExitStack, seconds: float, end: Callable[[ServerProcess], object]
) -> None:
    server = stack.enter_context(server_at(tmp_path))
    provider = stack.enter_context(ProviderProcess(tmp_path / "p1", server, **FAST_PROVIDER))
    task_id = server.client().submit(SLOW.format(seconds=seconds))
    await_true(lambda: "begun" in server.client().log(task_id), "the code runs")
    end(server)
    time.sleep(1.5 * LEASE_SECONDS)

    restarted_server = stack.enter_context(server_at(tmp_path, server.port))
    client = restarted_server.client()
    finished = client.finished(task_id)
    assert finished["state"] == "succeeded"
    assert [attempt["state"] for attempt in finished["attempts"]] == ["succeeded"], "it ran once"
    assert "done" in client.log(task_id)
    provider.stop()
    restarted_server.stop()
    check_truth(tmp_path)


@pytest.mark.long  # with a line that is cut: test_outage.py
def test_a_node_that_was_frozen_for_longer_than_a_lease_takes_its_work_back(
    tmp_path: Path, stack: ExitStack
) -> None:
    server = stack.enter_context(server_at(tmp_path))
    provider = stack.enter_context(ProviderProcess(tmp_path / "p1", server, **FAST_PROVIDER))
    client = server.client()
    task_id = client.submit(SLOW.format(seconds=5))
    await_true(lambda: "begun" in client.log(task_id), "the code runs")
    provider.process.send_signal(signal.SIGSTOP)
    try:
        await_true(lambda: client.task(task_id)["state"] == "queued", "it is given up for lost")
    finally:
        provider.process.send_signal(signal.SIGCONT)
    finished = client.finished(task_id)
    assert finished["state"] == "succeeded"
    assert [attempt["state"] for attempt in finished["attempts"]] == ["succeeded"], "and taken back"
    provider.stop()
    server.stop()
    check_truth(tmp_path)


@pytest.mark.long
def test_a_node_that_was_frozen_stops_reassigned_attempts(tmp_path: Path, stack: ExitStack) -> None:
    server = stack.enter_context(server_at(tmp_path))
    first = stack.enter_context(ProviderProcess(tmp_path / "p1", server, **FAST_PROVIDER))
    client = server.client()
    task_id = client.submit(SLOW.format(seconds=3))
    await_true(lambda: "begun" in client.log(task_id), "the code runs")
    first.process.send_signal(signal.SIGSTOP)
    try:
        second = stack.enter_context(ProviderProcess(tmp_path / "p2", server, **FAST_PROVIDER))
        await_true(lambda: len(client.task(task_id)["attempts"]) == 2, "another one has it")
    finally:
        first.process.send_signal(signal.SIGCONT)
    finished = client.finished(task_id)
    states = [attempt["state"] for attempt in finished["attempts"]]
    assert (states[0], states[-1], states.count("succeeded")) == ("lost", "succeeded", 1)
    for provider in (first, second):
        assert provider.stop() == 0
    server.stop()
    snapshot = check_truth(tmp_path)
    assert (
        len([attempt for attempt in snapshot.attempts if attempt.state is AttemptState.SUCCEEDED])
        == 1
    )


ITEMS = 80
# Every twentieth item fails, each time.
ARRAY = """
import os, sys, time
item = int(os.environ["POTLUCK_ITEM"])
print(item, flush=True)
time.sleep(0.02)
sys.exit(1 if item % 20 == 7 else 0)
"""


def test_an_array_outlives_a_provider_that_is_killed_in_the_middle(
    tmp_path: Path, stack: ExitStack
) -> None:
    server = stack.enter_context(server_at(tmp_path))
    doomed, steady = (
        stack.enter_context(ProviderProcess(tmp_path / name, server, **FAST_PROVIDER))
        for name in ("p1", "p2")
    )
    client = server.client()
    task_id = client.submit(
        ARRAY, items=ITEMS, allow_failures=ITEMS, limits={"run_seconds": 10.0}, max_attempts=2
    )

    def counts() -> dict[str, int]:
        counted: dict[str, int] = client.task(task_id)["items"]
        return counted

    def both_work() -> bool:
        nodes = {attempt["node_id"] for attempt in client.task(task_id)["attempts"]}
        return {doomed.node_id, steady.node_id} <= nodes and counts()["succeeded"] > 10

    await_true(both_work, "both have begun")
    doomed.kill()
    finished = client.finished(task_id, 120)
    assert finished["state"] == "succeeded", finished
    assert (counts()["succeeded"], counts()["failed"]) == (ITEMS - 4, 4)
    failed = client.get(f"/v1/tasks/{task_id}/items")["items"]
    assert sorted(item["item"] for item in failed) == [7, 27, 47, 67]
    assert {(item["reason"], item["exit_code"]) for item in failed} == {("exit_status", 1)}
    steady.stop()
    server.stop()
    check_truth(tmp_path)
