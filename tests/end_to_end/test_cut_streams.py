"""Streams over a line that is cut ten times while tasks run: nothing is lost or comes twice."""

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from potluck.consumer import Patience, Potluck
from potluck.model.backoff import BackOff
from potluck.model.task import Limits, TaskRequest
from potluck.model.task_spec import ScriptSpec
from potluck.wire.consumer import FollowedLog, FollowedState
from potluck.wire.events import EventView
from tests.end_to_end.cutting_proxy import CuttingProxy
from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess

CUTS = 10
TASKS = 6
LINES = 60
# So that a task is still at work when the last cut is made.
SCRIPT = f"""
import sys, time
for number in range({LINES}):
    print(f"line {{number:03}} of a log that is told over a line which breaks", flush=True)
    time.sleep(0.02)
"""
# Cut elsewhere each time.
MORE = [pytest.param(seed, marks=pytest.mark.long) for seed in range(10, 20)]
QUICK = Patience(back_off=BackOff(first_seconds=0.01, longest_seconds=0.05))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("streams")
    with (
        ServerProcess(directory) as running,
        ProviderProcess(directory / "node", running, **FAST_PROVIDER),
    ):
        yield running


def cut_at(seed: int, limit_bytes: int) -> list[int]:
    """Behind the head of the answer, and somewhere in what follows: mostly within an event."""
    rng = random.Random(seed)
    return [rng.randrange(450, limit_bytes) for _ in range(CUTS)]


def submit(client: Potluck, source: str) -> str:
    request = TaskRequest(ScriptSpec("s.py", source), limits=Limits(run_seconds=60.0))
    return client.tasks.submit(request).id


@pytest.mark.parametrize("seed", [1, *MORE])
def test_the_stream_of_an_account_is_cut_ten_times(server: ServerProcess, seed: int) -> None:
    direct = Potluck(server.url, server.token)
    with CuttingProxy(server.port, cut_at(seed, 1400)) as line:
        start = direct.events.list(1, newest_first=True).head
        stream = Potluck(line.url, server.token, QUICK).events.follow(start)
        events_heard: list[EventView] = []
        all_heard = threading.Event()

        def listen() -> None:
            finished_tasks = 0
            for event in stream:
                assert isinstance(event, EventView), event
                events_heard.append(event)
                finished_tasks += event.kind == "task.finished"
                if finished_tasks == TASKS:
                    break
            all_heard.set()

        threading.Thread(target=listen, daemon=True).start()
        ids = [submit(direct, "print(1)") for _ in range(TASKS)]
        assert all_heard.wait(60), f"{len(events_heard)} events, {line.cuts} cuts"
        assert line.cuts == CUTS
    expected_events = list(direct.events.all(start))
    assert [event.id for event in events_heard] == [
        event.id for event in expected_events[: len(events_heard)]
    ]
    assert len({event.id for event in events_heard}) == len(events_heard) >= 7 * TASKS
    for task_id in ids:
        kinds = [event.kind for event in events_heard if event.task_id == task_id]
        assert kinds[0] == "task.queued" and kinds[-1] == "task.finished"


@pytest.mark.parametrize("seed", [3, *MORE])
def test_the_stream_of_a_task_is_cut_ten_times(server: ServerProcess, seed: int) -> None:
    direct = Potluck(server.url, server.token)
    with CuttingProxy(server.port, cut_at(seed, 2500)) as line:
        task_id = submit(direct, SCRIPT)
        text, versions = b"", []
        for followed in Potluck(line.url, server.token, QUICK).tasks.follow(task_id):
            if isinstance(followed, FollowedLog):
                text += b"".join(
                    piece.data for piece in followed.page.pieces if piece.stream == "stdout"
                )
            elif isinstance(followed, FollowedState):
                versions.append((followed.task.version, followed.task.state))
        assert line.cuts == CUTS
    assert [int(line.split()[1]) for line in text.decode().splitlines()] == list(range(LINES))
    assert versions == sorted(versions) and versions[-1][1] == "succeeded"
    # Only why it waits may be told anew: that is no change of the task's.
    changed = [version for version, state in versions if state != "queued"]
    assert len(set(changed)) == len(changed)
