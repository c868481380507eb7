"""Selects lines of a log: the last ones, those since a time, and those that contain a text."""

from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from potluck.wire.consumer import LogPiece


class LineSelection(Struct, frozen=True):
    """Which lines of a log to show; false if all of it."""

    tail: int | None = None
    since: datetime | None = None
    grep: str | None = None

    def __bool__(self) -> bool:
        return self != ALL_LINES


ALL_LINES = LineSelection()


class LineSelector:
    """Takes the pieces of one log in order, and returns those lines that are selected.

    A line is selected when it is complete, or with `end`. `tail` holds lines back until `end`.
    """

    def __init__(self, selection: LineSelection) -> None:
        self._since = selection.since
        self._grep = None if selection.grep is None else selection.grep.encode()
        self._last: deque[LogPiece] | None = None
        if selection.tail is not None:
            self._last = deque(maxlen=selection.tail)
        self._unfinished: dict[str, LogPiece] = {}

    def feed(self, pieces: Iterable[LogPiece]) -> list[LogPiece]:
        lines = [line for piece in pieces for line in self._lines(piece) if self._is_selected(line)]
        if self._last is None:
            return lines
        self._last.extend(lines)
        return []

    def end(self) -> list[LogPiece]:
        """The lines that were held back. From now on lines are returned as they come."""
        rest = [piece for piece in self._unfinished.values() if self._is_selected(piece)]
        self._unfinished.clear()
        if self._last is None:
            return rest
        self._last.extend(rest)
        last, self._last = list(self._last), None
        return last

    def _lines(self, piece: LogPiece) -> Iterator[LogPiece]:
        """Complete lines. The time of a line is that of its end."""
        before = self._unfinished.pop(piece.stream, None)
        data = piece.data if before is None else before.data + piece.data
        start = 0
        while (end := data.find(b"\n", start) + 1) > 0:
            yield replace(piece, data=data[start:end])
            start = end
        if start < len(data):
            self._unfinished[piece.stream] = replace(piece, data=data[start:])

    def _is_selected(self, line: LogPiece) -> bool:
        """Logs of earlier servers have no times: all of it is shown then."""
        if self._since is not None and line.at is not None and line.at < self._since:
            return False
        return self._grep is None or self._grep in line.data
