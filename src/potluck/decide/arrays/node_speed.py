"""The observed speed of each array on each node."""

from collections.abc import Mapping

from msgspec import Struct

from potluck.decide.arrays.ranges import ArraySpeed, is_unfit, pending_items
from potluck.decide.reservations.running import RunningWork
from potluck.decide.types import WaitingTask
from potluck.model.ids import NodeId, TaskId


class ArrayProgress(Struct, frozen=True):
    """Observed progress of an array on a node."""

    item_seconds: float
    in_vain: int = 0  # items that failed there, if none succeeded


class NodeSpeeds:
    def __init__(self, running: RunningWork) -> None:
        self._running = running
        self._seen: dict[TaskId, Mapping[NodeId, ArrayProgress]] = {}

    def observe(self, task_id: TaskId, seen: Mapping[NodeId, ArrayProgress]) -> None:
        """Replaces earlier observations, so a node not seen for long gets another chance."""
        self._seen[task_id] = seen

    def forget(self, task_id: TaskId) -> None:
        self._seen.pop(task_id, None)

    def speed(self, task: WaitingTask, node_id: NodeId, slots: int | None = None) -> ArraySpeed:
        """`slots` is how many attempts could run at once; used before anything was observed."""
        anywhere = self._seen.get(task.id)
        workers = self._running.live(task.id)
        if not anywhere:
            return ArraySpeed(task.expected_seconds, None, workers, slots=slots)
        seen = anywhere.get(node_id)
        if seen is None:
            return ArraySpeed(task.expected_seconds, None, workers)
        return ArraySpeed(task.expected_seconds, seen.item_seconds, workers, seen.in_vain)

    def unfit(self, task: WaitingTask) -> frozenset[NodeId]:
        """The nodes that would delay the end of an array, or on which its items fail."""
        seen = self._seen.get(task.id)
        if not seen:
            return frozenset()
        pending = pending_items(task)  # computed once: there may be many pieces
        return frozenset(
            node_id for node_id in seen if is_unfit(pending, self.speed(task, node_id))
        )
