"""How fast each node works on each array, as far as it has been seen."""

from potluck.decide.ahead.running import Running
from potluck.decide.arrays.ranges import Pace, is_too_slow
from potluck.decide.snapshot import WaitingTask
from potluck.model.ids import NodeId, TaskId


class Paces:
    def __init__(self, running: Running) -> None:
        self._running = running
        self._seen: dict[TaskId, dict[NodeId, float]] = {}

    def observe(self, task_id: TaskId, node_id: NodeId, item_seconds: float) -> None:
        self._seen.setdefault(task_id, {})[node_id] = item_seconds

    def forget(self, task_id: TaskId) -> None:
        self._seen.pop(task_id, None)

    def pace(self, task: WaitingTask, node_id: NodeId) -> Pace:
        seen = self._seen.get(task.id, {}).get(node_id)
        return Pace(task.expected_seconds, seen, self._running.live(task.id))

    def too_slow(self, task: WaitingTask) -> frozenset[NodeId]:
        """The nodes that would hold up the end of an array."""
        return frozenset(
            node_id
            for node_id in self._seen.get(task.id, ())
            if is_too_slow(task, self.pace(task, node_id))
        )
