"""The lines that could move, account by account."""

import heapq

from potluck.decide.queue.task_groups import Halt, Lines, TaskGroup
from potluck.decide.types import WaitingTask
from potluck.model.ids import AccountId


class ReadyGroups:
    """Each line stands here at most once, by the place of its head."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._heaps: dict[AccountId, list[tuple[float, int, TaskGroup]]] = {}

    def offer(self, line: TaskGroup) -> bool:
        """Says that a line could move, or that its head is a new one; False if it has none."""
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
        """The head of the account's first line; stays where it is."""
        heap = self._heaps.get(account_id)
        while heap:
            place, _, line = heap[0]
            entry = self._lines.first(line) if place == line.offered else None
            if entry is not None and entry[0] == place:
                return entry[2]
            heapq.heappop(heap)
            if place == line.offered:
                line.offered = None
                self.offer(line)  # by its head of now
        self._heaps.pop(account_id, None)
        return None

    def take(self, account_id: AccountId) -> tuple[TaskGroup, WaitingTask]:
        """The account's first line, which is no longer here, and its head.

        `first` has just said that it is."""
        _, _, line = heapq.heappop(self._heaps[account_id])
        line.offered = None
        entry = line.row.first()
        assert entry is not None
        return line, entry[2]
