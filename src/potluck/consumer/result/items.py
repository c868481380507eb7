"""The items of an array in order, each with its value or error."""

import heapq
from collections.abc import Iterator
from typing import Any, Protocol

from potluck.consumer.files.files import Files
from potluck.consumer.functions.decode_value import FailedValue, ValueDecoder
from potluck.consumer.functions.failure_text import item_error
from potluck.consumer.functions.pieces import decode_piece, find_failures
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
        """The item's value; raises its error if it failed."""
        if self.error is not None:
            raise self.error
        return self._value

    def __repr__(self) -> str:
        outcome = f"error={self.error!r}" if self.error else f"value={self._value!r}"
        return f"<ResultItem {self.index}, {outcome}>"


class FetchPieces(Protocol):
    """Returns a task's result after so many pieces."""

    def __call__(self, behind: int) -> TaskResult: ...


class ItemReader:
    """Reads the values of an array of function calls, in the order of its items, each once.

    Pieces arrive in the order in which nodes reported them. An early one waits encoded; its values
    are downloaded and decoded when their turn comes.
    """

    def __init__(self, fetch: FetchPieces, opener: ValueDecoder, files: Files, tasks: Tasks):
        self._fetch = fetch
        self._opener = opener
        self._files = files
        self._tasks = tasks
        self._early: list[tuple[int, int, ResultPiece]] = []
        self._failures: dict[int, FailedItem] = {}

    def items(self, total: int) -> Iterator[ResultItem]:
        done = behind = 0
        is_last = False
        while not is_last:
            result = self._fetch(behind)
            self._take(result)
            is_last = not result.has_more
            behind = result.behind
            while self._early and (is_last or self._early[0][0] <= done) and done < total:
                start, _, piece = heapq.heappop(self._early)
                yield from _unreported(result, done, start)
                values = self._values(piece, result)[max(done - start, 0) :]
                done = max(done, start)
                yield from _items(done, values)
                done += len(values)
        yield from _unreported(result, done, total)

    def _take(self, result: TaskResult) -> None:
        self._failures |= find_failures(result, self._tasks)
        for piece in result.pieces:
            heapq.heappush(self._early, (piece.start, len(self._early), piece))

    def _values(self, piece: ResultPiece, result: TaskResult) -> list[object]:
        failed = self._failures.pop(piece.start, None)
        return decode_piece(piece, result, failed, self._opener, self._files)


def _unreported(result: TaskResult, first: int, end: int) -> Iterator[ResultItem]:
    """Items without any report: their task ended before."""
    for index in range(first, end):
        yield ResultItem(index, None, item_error(result, index, None))


def _items(first: int, values: list[object]) -> Iterator[ResultItem]:
    for index, value in enumerate(values, first):
        if isinstance(value, FailedValue):
            yield ResultItem(index, None, value.error)
        else:
            yield ResultItem(index, value)


def failed_items(tasks: Tasks, task_id: str) -> Iterator[FailedItem]:
    """The items that failed for good, in order."""
    cursor: int | None = None
    while True:
        page = tasks.failed_items(task_id, cursor)
        yield from (item for item in page.items if item.is_final)
        cursor = page.next_cursor
        if cursor is None:
            return
