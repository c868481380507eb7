"""Tasks whose time has not come yet, each once, however often it was read or put off."""

import heapq

from potluck.model.ids import TaskId

# So that few entries are not tidied again and again.
_SPARE = 64


class Later:
    def __init__(self) -> None:
        self._times: dict[TaskId, float] = {}
        self._heap: list[tuple[float, TaskId]] = []  # the next first; also what no longer holds

    def __len__(self) -> int:
        """What it keeps in memory."""
        return len(self._heap)

    def put(self, task_id: TaskId, at: float) -> None:
        if self._times.get(task_id) != at:
            self._times[task_id] = at
            heapq.heappush(self._heap, (at, task_id))
            self._tidy()

    def drop(self, task_id: TaskId) -> None:
        if self._times.pop(task_id, None) is not None:
            self._tidy()

    def take_due(self, now: float) -> list[TaskId]:
        """Those whose time has come, which are no longer here."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            at, task_id = heapq.heappop(self._heap)
            if self._times.get(task_id) == at:
                del self._times[task_id]
                found.append(task_id)
        return found

    @property
    def next_at(self) -> float | None:
        while self._heap and self._times.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _tidy(self) -> None:
        if len(self._heap) > 2 * len(self._times) + _SPARE:
            self._heap = [(at, task_id) for task_id, at in self._times.items()]
            heapq.heapify(self._heap)
