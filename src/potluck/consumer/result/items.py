"""Items of an array, one after the other, with what each of them gave."""

import heapq
from collections.abc import Iterator
from typing import Any, Protocol

from potluck.consumer.files.files import Files
from potluck.consumer.functions.decode_value import FailedValue, Opener
from potluck.consumer.functions.failure_text import item_ended
from potluck.consumer.functions.pieces import failures_in, values_of
from potluck.consumer.tasks import Tasks
from potluck.model.error import PotluckError
from potluck.wire.consumer import FailedItem
from potluck.wire.results import ResultPiece, TaskResult


class ResultItem:
    """One item: its number, and its value or its error."""

    __slots__ = ("_value", "error", "index")

    def __init__(self, index: int, value: object, error: PotluckError | None = None):
        self.index = index
        self.error = error
        self._value = value

    @property
    def ok(self) -> bool:
        return self.error is None

    @property
    def value(self) -> Any:
        """What it returned; raises what went wrong, if anything did."""
        if self.error is not None:
            raise self.error
        return self._value

    def __repr__(self) -> str:
        told = f"error={self.error!r}" if self.error else f"value={self._value!r}"
        return f"<ResultItem {self.index}, {told}>"


class PiecesKnown(Protocol):
    """What the server says of a task behind so many pieces."""

    def __call__(self, behind: int) -> TaskResult: ...


class ItemReader:
    """Reads what the function of an array gave, in the order of its items, each once.

    Pieces come in the order in which nodes told them. One that is early waits as it came; a value
    is brought and opened when its turn comes, and not before.
    """

    def __init__(self, told: PiecesKnown, opener: Opener, files: Files, tasks: Tasks):
        self._told = told
        self._opener = opener
        self._files = files
        self._tasks = tasks
        self._early: list[tuple[int, int, ResultPiece]] = []
        self._failures: dict[int, FailedItem] = {}

    def items(self, total: int) -> Iterator[ResultItem]:
        done = behind = 0
        is_last = False
        while not is_last:
            found = self._told(behind)
            self._take(found)
            is_last = not found.has_more
            behind = found.behind
            while self._early and (is_last or self._early[0][0] <= done) and done < total:
                start, _, piece = heapq.heappop(self._early)
                yield from _untold(found, done, start)
                values = self._values(piece, found)[max(done - start, 0) :]
                done = max(done, start)
                yield from _items(done, values)
                done += len(values)
        yield from _untold(found, done, total)

    def _take(self, found: TaskResult) -> None:
        self._failures |= failures_in(found, self._tasks)
        for piece in found.pieces:
            heapq.heappush(self._early, (piece.start, len(self._early), piece))

    def _values(self, piece: ResultPiece, found: TaskResult) -> list[object]:
        failed = self._failures.pop(piece.start, None)
        return values_of(piece, found, failed, self._opener, self._files)


def _untold(found: TaskResult, first: int, end: int) -> Iterator[ResultItem]:
    """Items of which nothing was ever told: their task ended before."""
    for index in range(first, end):
        yield ResultItem(index, None, item_ended(found, index, None))


def _items(first: int, values: list[object]) -> Iterator[ResultItem]:
    for index, value in enumerate(values, first):
        if isinstance(value, FailedValue):
            yield ResultItem(index, None, value.error)
        else:
            yield ResultItem(index, value)


def failed_items(tasks: Tasks, task_id: str) -> Iterator[FailedItem]:
    """Those that will not be tried again, in order."""
    cursor: int | None = None
    while True:
        page = tasks.failed_items(task_id, cursor)
        yield from (each for each in page.items if each.is_final)
        cursor = page.next_cursor
        if cursor is None:
            return
