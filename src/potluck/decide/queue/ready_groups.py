"""The task groups that may be placed, by account."""

import heapq

from potluck.decide.queue.task_groups import Halt, Lines, TaskGroup
from potluck.decide.types import WaitingTask
from potluck.model.ids import AccountId


class ReadyGroups:
    """Contains each group at most once, ordered by its first task."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._heaps: dict[AccountId, list[tuple[float, int, TaskGroup]]] = {}

    def offer(self, line: TaskGroup) -> bool:
        """Adds a group, or updates it after its first task has changed; False if it is empty."""
        line.halt = Halt.NONE
        entry = self._lines.first(line)
        if entry is None:
            return False
        if line.offered != entry[0]:
            line.offered = entry[0]
            heap = self._heaps.setdefault(line.key.account_id, [])
            heapq.heappush(heap, (entry[0], line.number, line))
        return True

    def accounts(self) -> list[AccountId]:
        return list(self._heaps)

    def first(self, account_id: AccountId) -> WaitingTask | None:
        """The first task of the account; it stays in place."""
        heap = self._heaps.get(account_id)
        while heap:
            place, _, line = heap[0]
            entry = self._lines.first(line) if place == line.offered else None
            if entry is not None and entry[0] == place:
                return entry[2]
            heapq.heappop(heap)
            if place == line.offered:
                line.offered = None
                self.offer(line)  # by its current first task
        self._heaps.pop(account_id, None)
        return None

    def take(self, account_id: AccountId) -> tuple[TaskGroup, WaitingTask]:
        """Removes the account's first group; returns it with its first task.

        `first` must have returned a task just before."""
        _, _, line = heapq.heappop(self._heaps[account_id])
        line.offered = None
        entry = line.row.first()
        assert entry is not None
        return line, entry[2]
