"""Tasks in the order of their places: a row that is added to at its end, and taken from in front.

Most tasks come after those that wait already, so the row is in order as it is, and whoever comes
out of turn stands in a heap beside it. A heap for all would be touched at many places for each task
that leaves it, which costs more the more tasks wait.
"""

import heapq
from collections.abc import Callable, Iterator
from itertools import chain, islice

from potluck.decide.types import WaitingTask
from potluck.model.ids import TaskId

Entry = tuple[float, TaskId, WaitingTask]

_FEW = 64


class Row:
    __slots__ = ("_entries", "_late", "_start")

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._start = 0  # what is before it has left
        self._late: list[Entry] = []

    def __len__(self) -> int:
        return len(self._entries) - self._start + len(self._late)

    def add(self, entry: Entry) -> None:
        entries = self._entries
        if len(entries) > self._start and entry < entries[-1]:
            heapq.heappush(self._late, entry)
        else:
            entries.append(entry)

    def first(self) -> Entry | None:
        entry = self._entries[self._start] if self._start < len(self._entries) else None
        if self._late and (entry is None or self._late[0] < entry):
            return self._late[0]
        return entry

    def take(self) -> None:
        """Takes out the first."""
        if self._late and self.first() is self._late[0]:
            heapq.heappop(self._late)
            return
        self._start += 1
        if self._start > _FEW and 2 * self._start > len(self._entries):
            del self._entries[: self._start]
            self._start = 0

    def replace(self, entry: Entry) -> None:
        """Puts one with the same place where the first is."""
        if self._late and self.first() is self._late[0]:
            heapq.heapreplace(self._late, entry)
        else:
            self._entries[self._start] = entry

    def every(self, stride: int) -> Iterator[Entry]:
        """Every so many-th, in no order."""
        return islice(chain(islice(self._entries, self._start, None), self._late), 0, None, stride)

    def keep(self, is_kept: Callable[[Entry], bool]) -> None:
        """Sweeps out all others."""
        self._entries = [each for each in islice(self._entries, self._start, None) if is_kept(each)]
        self._start = 0
        self._late = [each for each in self._late if is_kept(each)]
        heapq.heapify(self._late)
