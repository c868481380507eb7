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
from tests.end_to_end.cutting_line import CuttingLine
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


def cut_at(seed: int, most: int) -> list[int]:
    """Behind the head of the answer, and somewhere in what follows: mostly within an event."""
    chosen = random.Random(seed)
    return [chosen.randrange(450, most) for _ in range(CUTS)]


def submit(client: Potluck, source: str) -> str:
    request = TaskRequest(ScriptSpec("s.py", source), limits=Limits(run_seconds=60.0))
    return client.tasks.submit(request).id


@pytest.mark.parametrize("seed", [1, *MORE])
def test_the_stream_of_an_account_is_cut_ten_times(server: ServerProcess, seed: int) -> None:
    direct = Potluck(server.url, server.token)
    with CuttingLine(server.port, cut_at(seed, 1400)) as line:
        begin = direct.events.list(1, newest_first=True).head
        stream = Potluck(line.url, server.token, QUICK).events.follow(begin)
        heard: list[EventView] = []
        over = threading.Event()

        def listen() -> None:
            ended = 0
            for said in stream:
                assert isinstance(said, EventView), said
                heard.append(said)
                ended += said.kind == "task.finished"
                if ended == TASKS:
                    break
            over.set()

        threading.Thread(target=listen, daemon=True).start()
        ids = [submit(direct, "print(1)") for _ in range(TASKS)]
        assert over.wait(60), f"{len(heard)} events, {line.cuts} cuts"
        assert line.cuts == CUTS
    told = list(direct.events.all(begin))
    assert [each.id for each in heard] == [each.id for each in told[: len(heard)]]
    assert len({each.id for each in heard}) == len(heard) >= 7 * TASKS
    for task_id in ids:
        kinds = [each.kind for each in heard if each.task_id == task_id]
        assert kinds[0] == "task.queued" and kinds[-1] == "task.finished"


@pytest.mark.parametrize("seed", [3, *MORE])
def test_the_stream_of_a_task_is_cut_ten_times(server: ServerProcess, seed: int) -> None:
    direct = Potluck(server.url, server.token)
    with CuttingLine(server.port, cut_at(seed, 2500)) as line:
        task_id = submit(direct, SCRIPT)
        text, versions = b"", []
        for said in Potluck(line.url, server.token, QUICK).tasks.follow(task_id):
            if isinstance(said, FollowedLog):
                text += b"".join(each.data for each in said.page.pieces if each.stream == "stdout")
            elif isinstance(said, FollowedState):
                versions.append((said.task.version, said.task.state))
        assert line.cuts == CUTS
    assert [int(each.split()[1]) for each in text.decode().splitlines()] == list(range(LINES))
    assert versions == sorted(versions) and versions[-1][1] == "succeeded"
    # Only why it waits may be told anew: that is no change of the task's.
    changed = [version for version, state in versions if state != "queued"]
    assert len(set(changed)) == len(changed)
