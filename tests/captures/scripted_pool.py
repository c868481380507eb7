"""What the pool says in the pictures: a task that is watched, and an array that goes on."""

import threading
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from potluck.model.ids import TaskId
from potluck.model.lease import AttemptState
from potluck.model.task import TaskState, WaitingReason
from potluck.wire.consumer import ItemCounts, TaskPage, TaskView
from tests.cli.pool_fixture import OPEN, ago, an_attempt, ended_tasks, plays_a_pool
from tests.consumer.fake_server import FakeServer, Scene, a_task, log_event, says, state_event

PORT = 18470
_TRAIN = TaskId("task_01m7gm27j5qac5rmfgwtcrx3k9")
_SWEEP = TaskId("task_01m7gm2ab2egsw01knwzd6emam")
_PATIENCE_SECONDS = 30.0


class ScriptedPool:
    """Before a fake server; what is watched goes on when the picture says so."""

    def __init__(self, server: FakeServer):
        self.go_on = threading.Event()
        waiting, *others = plays_a_pool(server)
        tasks = [replace(waiting, name="tune.py"), *others]
        server.plays(OPEN, says(TaskPage(tasks)))
        server.plays("/v1/tasks?limit=20", says(TaskPage(tasks + ended_tasks())))
        # In the order in which the pictures submit them.
        server.plays("/v1/tasks", says(_train(TaskState.QUEUED), 201), says(_sweep(0, 200), 201))
        server.plays(f"/v1/tasks/{_TRAIN}/follow", _streamed(self._training()))
        server.plays(f"/v1/tasks/{_SWEEP}/follow", _streamed(self._sweeping()))

    def _training(self) -> Iterator[bytes]:
        attempt = an_attempt("garage", "RTX 4090")
        yield state_event(1, _train(TaskState.QUEUED))
        yield state_event(2, _train(TaskState.RUNNING, attempts=[attempt]))
        for epoch in range(1, 4):
            yield log_event(2 + epoch, epoch - 1, ("stdout", _epoch(epoch)))
        self.go_on.wait(_PATIENCE_SECONDS)
        self.go_on.clear()
        yield log_event(6, 3, ("stdout", _epoch(4)))
        times = {"started_at": ago(seconds=212), "finished_at": ago(seconds=0)}
        ended_attempt = an_attempt("garage", "RTX 4090", state=AttemptState.SUCCEEDED)
        yield state_event(7, _train(TaskState.SUCCEEDED, attempts=[ended_attempt], **times))

    def _sweeping(self) -> Iterator[bytes]:
        for place, done_count in enumerate((0, 61, 122), 1):
            yield state_event(place, _sweep(done_count, 200))
        self.go_on.wait(_PATIENCE_SECONDS)


def _epoch(number: int) -> bytes:
    return f"epoch {number}: loss {2.31 / number:.2f}\n".encode()


def _train(state: TaskState, **changes: Any) -> TaskView:
    waiting = WaitingReason("device_busy", "4 nodes have their devices in use.")
    return a_task(state, id=_TRAIN, name="train.py", phase=state.value, waiting=waiting, **changes)


def _sweep(done_count: int, total: int) -> TaskView:
    counts = ItemCounts(total, total - done_count - 4, done_count, 0)
    attempt = an_attempt("garage", "RTX 4090")
    return a_task(
        TaskState.RUNNING,
        id=_SWEEP,
        name="sweep.py",
        phase="running",
        items=counts,
        attempts=[attempt],
        started_at=ago(seconds=10),
    )


def _streamed(events: Iterator[bytes]) -> Scene:
    return Scene(headers={"Content-Type": "text/event-stream"}, chunks=events)
