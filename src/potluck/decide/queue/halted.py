"""The lines that can not move, by what must happen before they are looked at again."""

from collections.abc import Iterable, Iterator

from potluck.decide.queue.halt import Halt
from potluck.decide.queue.lines import Line, Shape
from potluck.model.ids import AccountId

# Sets that keep the order in which lines were added, so that equal input gives equal plans.
_LineSet = dict[Line, None]


class Halted:
    def __init__(self) -> None:
        self._by_shape: dict[Shape, _LineSet] = {}
        self._kept: _LineSet = {}
        self._of_account: dict[AccountId, _LineSet] = {}

    def __contains__(self, shape: Shape) -> bool:
        """Whether lines of this shape are known to find no room."""
        return shape in self._by_shape

    def add(self, line: Line, halt: Halt) -> None:
        line.halt = halt
        if halt is Halt.ROOM:
            self._by_shape.setdefault(line.shape, {})[line] = None
        elif not halt.is_of_account:
            self._kept[line] = None
        else:
            self._of_account.setdefault(line.key.account_id, {})[line] = None

    def shapes(self) -> Iterable[Shape]:
        """Each shape without room."""
        return self._by_shape.keys()

    def line_of(self, shape: Shape) -> Line | None:
        """One of the lines of this shape that are known to find no room."""
        return next(iter(self._by_shape.get(shape, ())), None)

    def lines(self) -> Iterator[Line]:
        """Those that wait for room, kept or not."""
        for lines in self._by_shape.values():
            yield from lines
        yield from self._kept

    def discard(self, line: Line) -> None:
        """Forgets a line in which nobody stands any more."""
        lines = self._by_shape.get(line.shape, {})
        lines.pop(line, None)
        if not lines:
            self._by_shape.pop(line.shape, None)
        self._kept.pop(line, None)
        self._of_account.get(line.key.account_id, {}).pop(line, None)

    def release_shape(self, shape: Shape) -> list[Line]:
        return list(self._by_shape.pop(shape, {}))

    def release_kept(self) -> list[Line]:
        released, self._kept = list(self._kept), {}
        return released

    def release_account(self, account_id: AccountId) -> list[Line]:
        return list(self._of_account.pop(account_id, {}))

    def release_credit(self) -> list[Line]:
        """Something cheaper may have become free."""
        released = [
            line
            for lines in self._of_account.values()
            for line in lines
            if line.halt is Halt.CREDIT
        ]
        for line in released:
            del self._of_account[line.key.account_id][line]
        return released
