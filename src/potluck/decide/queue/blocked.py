"""The blocked task groups, by the event that must happen before they are tried again."""

import heapq
from collections.abc import Iterable, Iterator

from potluck.decide.queue.task_groups import (
    Halt,
    Lines,
    Shape,
    TaskGroup,
)
from potluck.model.ids import AccountId

# A set in order of insertion, so that equal inputs give equal plans.
_LineSet = dict[TaskGroup, None]
_Heap = list[tuple[float, int, TaskGroup]]
_FEW = 64


class Halted:
    """Groups of one shape fit, or do not fit, together. So when capacity for a shape may be free,
    only the first group of each account is released, and the next one once that was placed. With
    thousands of groups of one shape, the others cost nothing."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._by_shape: dict[Shape, _LineSet] = {}
        self._heaps: dict[Shape, dict[AccountId, _Heap]] = {}  # the same groups, in order
        self._opened: set[Shape] = set()  # the shapes for which capacity may be free
        self._kept: _LineSet = {}
        self._of_account: dict[AccountId, _LineSet] = {}

    def __contains__(self, shape: Shape) -> bool:
        """Whether groups of this shape are known not to fit."""
        return shape in self._by_shape and shape not in self._opened

    def add(self, line: TaskGroup, halt: Halt) -> None:
        line.halt = halt
        if halt is Halt.ROOM:
            self._opened.discard(line.shape)
            self._by_shape.setdefault(line.shape, {})[line] = None
            self.reorder(line)
        elif not halt.is_of_account:
            self._kept[line] = None
        else:
            self._of_account.setdefault(line.key.account_id, {})[line] = None

    def reorder(self, line: TaskGroup) -> None:
        """Updates a group that does not fit after its first task has changed."""
        entry = self._lines.first(line)
        if entry is not None and line.halted != entry[0]:
            line.halted = entry[0]
            heaps = self._heaps.setdefault(line.shape, {})
            heap = heaps.setdefault(line.key.account_id, [])
            heapq.heappush(heap, (entry[0], line.number, line))
            if len(heap) > _FEW + 2 * len(self._by_shape[line.shape]):
                heap[:] = [each for each in heap if each[2].halted == each[0]]
                heapq.heapify(heap)

    def shapes(self) -> Iterable[Shape]:
        return self._by_shape.keys()

    def line_of(self, shape: Shape) -> TaskGroup | None:
        """One of the groups of this shape that are known not to fit."""
        return next(iter(self._by_shape.get(shape, ())), None)

    def lines(self) -> Iterator[TaskGroup]:
        """The groups that wait for capacity, reserved or not."""
        for lines in self._by_shape.values():
            yield from lines
        yield from self._kept

    def discard(self, line: TaskGroup) -> None:
        """Forgets an empty group."""
        self._leave(line)
        self._kept.pop(line, None)
        self._of_account.get(line.key.account_id, {}).pop(line, None)

    def release_shape(self, shape: Shape) -> list[TaskGroup]:
        """Releases the first group of this shape of each account."""
        if shape in self._by_shape:
            self._opened.add(shape)
        firsts = [self._take_first(shape, each) for each in list(self._heaps.get(shape, ()))]
        return [line for line in firsts if line is not None]

    def release_next(self, line: TaskGroup) -> TaskGroup | None:
        """Releases the next group of the same shape and account, unless the last did not fit."""
        if line.shape not in self._opened:
            return None
        return self._take_first(line.shape, line.key.account_id)

    def _take_first(self, shape: Shape, account_id: AccountId) -> TaskGroup | None:
        heap = self._heaps.get(shape, {}).get(account_id, [])
        while heap:
            place, _, line = heapq.heappop(heap)
            if line.halted != place or line.shape is not shape:
                continue
            entry = self._lines.first(line)
            if entry is not None and entry[0] != place:
                self.reorder(line)
                continue
            self._leave(line)
            if entry is not None:
                return line
        return None

    def _leave(self, line: TaskGroup) -> None:
        line.halted = None
        lines = self._by_shape.get(line.shape, {})
        lines.pop(line, None)
        if not lines:
            self._by_shape.pop(line.shape, None)
            self._heaps.pop(line.shape, None)
            self._opened.discard(line.shape)

    def release_kept(self) -> list[TaskGroup]:
        released, self._kept = list(self._kept), {}
        return released

    def release_account(self, account_id: AccountId) -> list[TaskGroup]:
        return list(self._of_account.pop(account_id, {}))

    def release_credit(self) -> list[TaskGroup]:
        released = [
            line
            for lines in self._of_account.values()
            for line in lines
            if line.halt is Halt.CREDIT
        ]
        for line in released:
            del self._of_account[line.key.account_id][line]
        return released
