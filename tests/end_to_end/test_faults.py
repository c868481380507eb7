"""Kill anything at any moment: nothing acknowledged is lost, nothing is accepted twice."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from potluck.model.lease import AttemptState
from tests.end_to_end.database_check import check_truth
from tests.processes import (
    FAST_PROVIDER,
    ProviderProcess,
    ServerProcess,
    WholeServerProcess,
    await_true,
)

# Says that it started, then works for a while; the last line is the result.
SLOW = "import time\nprint('begun', flush=True)\ntime.sleep({seconds})\nprint('done')\n"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_a_killed_server_comes_back_and_the_task_finishes(tmp_path: Path, stack: ExitStack) -> None:
    server = stack.enter_context(WholeServerProcess(tmp_path))
    provider = stack.enter_context(ProviderProcess(tmp_path / "p1", server, **FAST_PROVIDER))
    task_id = server.client().submit(SLOW.format(seconds=1.5))
    await_true(lambda: "begun" in server.client().log(task_id), "the code runs")
    waiting_id = server.client().submit("print('I was only queued')", priority=-1)
    server.kill()

    restarted_server = stack.enter_context(WholeServerProcess(tmp_path, server.port))
    client = restarted_server.client()
    for finished_id in (task_id, waiting_id):
        assert client.finished(finished_id)["state"] == "succeeded"
    assert "done" in client.log(task_id)
    attempts = client.task(task_id)["attempts"]
    assert [attempt["state"] for attempt in attempts] == ["succeeded"], "the healthy run was kept"

    assert provider.stop() == 0
    assert restarted_server.stop() == 0
    snapshot = check_truth(tmp_path)
    assert len(snapshot.tasks) == 2


@pytest.mark.long  # test_killed_provider.py has this, at every point
def test_a_killed_provider_comes_back_and_the_task_finishes(
    tmp_path: Path, stack: ExitStack
) -> None:
    server = stack.enter_context(ServerProcess(tmp_path))
    provider = stack.enter_context(ProviderProcess(tmp_path / "p1", server, **FAST_PROVIDER))
    client = server.client()
    task_id = client.submit(SLOW.format(seconds=1))
    await_true(lambda: "begun" in client.log(task_id), "the code runs")
    provider.kill()

    restarted_provider = stack.enter_context(
        ProviderProcess(tmp_path / "p1", server, **FAST_PROVIDER)
    )
    assert restarted_provider.node_id == provider.node_id, "the same machine is the same node"
    finished = client.finished(task_id)
    assert finished["state"] == "succeeded"
    assert [attempt["state"] for attempt in finished["attempts"]] == ["lost", "succeeded"]

    assert restarted_provider.stop() == 0
    assert server.stop() == 0
    snapshot = check_truth(tmp_path)
    accepted = [attempt for attempt in snapshot.attempts if attempt.state is AttemptState.SUCCEEDED]
    assert len(accepted) == 1


def test_a_killed_provider_that_stays_away_is_replaced(tmp_path: Path, stack: ExitStack) -> None:
    server = stack.enter_context(ServerProcess(tmp_path))
    first = stack.enter_context(ProviderProcess(tmp_path / "p1", server, **FAST_PROVIDER))
    client = server.client()
    task_id = client.submit(SLOW.format(seconds=1))
    await_true(lambda: "begun" in client.log(task_id), "the code runs")
    first.kill()
    stack.enter_context(ProviderProcess(tmp_path / "p2", server, **FAST_PROVIDER))
    finished = client.finished(task_id)
    reasons = [attempt["reason"] for attempt in finished["attempts"]]
    assert (finished["state"], reasons) == ("succeeded", ["lease_expired", "completed"])

    # Its owner starts it again at last: it clears up, and what it held is no longer its own.
    with ProviderProcess(tmp_path / "p1", server, **FAST_PROVIDER) as returned_provider:
        assert returned_provider.node_id == first.node_id
        assert client.finished(client.submit("print('welcome back')"))["state"] == "succeeded"
    assert len(client.task(task_id)["attempts"]) == 2


@pytest.mark.long
def test_nothing_is_lost_when_server_and_provider_are_killed_at_once(
    tmp_path: Path, stack: ExitStack
) -> None:
    server = stack.enter_context(WholeServerProcess(tmp_path))
    provider = stack.enter_context(ProviderProcess(tmp_path / "p1", server, **FAST_PROVIDER))
    client = server.client()
    tasks = [client.submit(SLOW.format(seconds=0.3), name=f"n{number}") for number in range(4)]
    await_true(lambda: "begun" in client.log(tasks[0]), "the code runs")
    server.kill()
    provider.kill()

    restarted_server = stack.enter_context(WholeServerProcess(tmp_path, server.port))
    restarted_provider = stack.enter_context(
        ProviderProcess(tmp_path / "p1", restarted_server, **FAST_PROVIDER)
    )
    for task_id in tasks:
        assert restarted_server.client().finished(task_id)["state"] == "succeeded"
    restarted_provider.stop()
    restarted_server.stop()
    assert len(check_truth(tmp_path).tasks) == 4


@pytest.mark.long
def test_two_providers_on_one_machine_both_work(tmp_path: Path, stack: ExitStack) -> None:
    server = stack.enter_context(ServerProcess(tmp_path))
    providers = [
        stack.enter_context(ProviderProcess(tmp_path / name, server, **FAST_PROVIDER))
        for name in ("p1", "p2")
    ]
    client = server.client()
    all_cores = client.get("/v1/nodes")["nodes"][0]["cores"]
    tasks = [
        client.submit(SLOW.format(seconds=1), requirements={"cores": all_cores}) for _ in range(2)
    ]
    nodes = {client.finished(task)["attempts"][0]["node_id"] for task in tasks}
    assert nodes == {provider.node_id for provider in providers}


def test_a_cancelled_task_stops_on_the_node_and_frees_it(tmp_path: Path, stack: ExitStack) -> None:
    server = stack.enter_context(ServerProcess(tmp_path))
    stack.enter_context(ProviderProcess(tmp_path / "p1", server, **FAST_PROVIDER))
    client = server.client()
    all_cores = client.get("/v1/nodes")["nodes"][0]["cores"]
    whole_node = {"requirements": {"cores": all_cores}}
    endless = client.submit(SLOW.format(seconds=600), **whole_node)
    await_true(lambda: "begun" in client.log(endless), "the code runs")
    following = client.submit("print('my turn')", **whole_node)
    waiting = await_true(lambda: client.task(following)["waiting"], "the reason is known")
    assert "in use" in waiting["sentence"]
    assert client.post(f"/v1/tasks/{endless}/cancel", {})["state"] == "cancelled"
    assert client.finished(following)["state"] == "succeeded"


def test_a_killed_database_comes_back_without_a_restart(tmp_path: Path, stack: ExitStack) -> None:
    server = stack.enter_context(WholeServerProcess(tmp_path))
    provider = stack.enter_context(ProviderProcess(tmp_path / "p1", server, **FAST_PROVIDER))
    client = server.client()
    task_id = client.submit(SLOW.format(seconds=1))
    await_true(lambda: "begun" in client.log(task_id), "the code runs")
    (pid_file,) = (tmp_path / "server" / "postgres").rglob("postmaster.pid")
    os.kill(int(pid_file.read_text().split()[0]), signal.SIGKILL)

    response = client.call("GET", "/v1/tasks")
    assert response.status in (200, 503), "away, or back already; never a 500"
    await_true(lambda: client.call("GET", "/readyz").status == 200, "the server is ready again")
    assert client.finished(task_id)["state"] == "succeeded"
    assert [attempt["state"] for attempt in client.task(task_id)["attempts"]] == ["succeeded"]
    provider.stop()
    server.stop()
    check_truth(tmp_path)
