"""The tasks of a map, each an array of items, and their results."""

import threading
import time
from collections.abc import Iterator

from potluck.consumer.functions.decode_value import FailedValue, ValueDecoder
from potluck.consumer.functions.dispatch import Dispatch
from potluck.consumer.functions.failure_text import item_error
from potluck.consumer.functions.pieces import decode_piece, find_failures
from potluck.model.error import PotluckError, TaskFailed
from potluck.model.ids import TaskId
from potluck.wire.results import TaskResult


class MapTally:
    """Counts the finished and the failed items of a map, whether they were read or not."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.known = self.failed = 0

    def add(self, known: int, failed: int) -> None:
        with self._lock:
            self.known += known
            self.failed += failed


class Inbox:
    """The results that the collector's threads have received for one map."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._news: list[tuple[MapArray, TaskResult | PotluckError]] = []
        self._is_over = False

    def put(self, array: "MapArray", result: TaskResult | PotluckError) -> None:
        with self._turn:
            self._news.append((array, result))
            self._turn.notify()

    def take(self) -> "list[tuple[MapArray, TaskResult | PotluckError]]":
        with self._turn:
            news, self._news = self._news, []
            return news

    def wait(self, until: float | None) -> bool:
        rest = None if until is None else max(0.0, until - time.monotonic())
        with self._turn:
            return bool(self._turn.wait_for(lambda: self._news or self._is_over, rest))

    def end(self) -> None:
        """Wakes every waiting thread for good."""
        with self._turn:
            self._is_over = True
            self._turn.notify_all()


class MapArray:
    """One task of a map; `offset` is the position of its first item in the map."""

    def __init__(self, dispatch: Dispatch, inbox: Inbox, tally: MapTally, offset: int, count: int):
        self.task_id: TaskId | None = None
        self.offset = offset
        self.seen = bytearray(count)
        self._dispatch = dispatch
        self._inbox = inbox
        self._tally = tally
        self._unreported = count
        self._is_abandoned = False
        self._is_cancelled = False
        self._is_settled = threading.Event()

    def submitted(self, task_id: TaskId) -> None:
        self.task_id = task_id
        if not self._is_abandoned:
            self._dispatch.collector.watch(task_id, self)
        if self._is_abandoned or self._is_cancelled:
            self._dispatch.sender.call_off(task_id)

    def refused(self, error: PotluckError) -> None:
        self._give_up()
        self._inbox.put(self, error)

    def lost(self, error: PotluckError) -> None:
        self._give_up()
        self._inbox.put(self, error)

    def receive(self, result: TaskResult) -> None:
        item_count = sum(piece.end - piece.start for piece in result.pieces)
        failed = sum(piece.end - piece.start for piece in result.pieces if piece.is_error)
        self._unreported -= item_count
        self._tally.add(item_count, failed)
        if self._unreported <= 0 or (result.state.is_final and not result.has_more):
            self._give_up()
            self._unreported = 0
        self._inbox.put(self, result)

    def _give_up(self) -> None:
        """No more results will come: the unreported items have failed."""
        if not self._is_settled.is_set():
            rest = max(self._unreported, 0)
            self._tally.add(rest, rest)
            self._is_settled.set()

    def wait(self, until: float | None) -> bool:
        """Waits until no more results will come."""
        rest = None if until is None else max(0.0, until - time.monotonic())
        return self._is_settled.wait(rest)

    def is_over(self) -> bool:
        """Whether every item has a result; the task itself may end a moment later."""
        return 0 not in self.seen

    def leave(self) -> None:
        if self.task_id is not None:
            self._dispatch.collector.forget(self.task_id)

    def cancel(self) -> None:
        """Cancels the task, or its submission; its items then fail as cancelled."""
        self._is_cancelled = True
        if self.task_id is not None:
            self._dispatch.sender.call_off(self.task_id)
        elif self._dispatch.sender.take_back(self):
            self.refused(TaskFailed("The call was cancelled before it was sent.", "Call it again."))

    def call_off(self) -> None:
        """Abandons the results, and cancels the task unless it has finished."""
        self._is_abandoned = True
        self._is_settled.set()
        self.leave()
        if self._unreported <= 0:
            return
        if self.task_id is not None:
            self._dispatch.sender.call_off(self.task_id)
        else:
            self._dispatch.sender.take_back(self)


def decode_result(
    array: MapArray, result: TaskResult | PotluckError, opener: ValueDecoder, dispatch: Dispatch
) -> Iterator[tuple[int, list[object]]]:
    """Runs of items with their values, each item once; at the end also the unreported items."""
    if isinstance(result, PotluckError):
        for start, end in _gaps(array):
            yield start, [FailedValue(result)] * (end - start)
        return
    files, tasks = dispatch.client.files, dispatch.client.tasks
    failures = find_failures(result, tasks)
    for piece in result.pieces:
        run = array.seen[piece.start : piece.end]
        if len(run) == piece.end - piece.start and not any(run):
            array.seen[piece.start : piece.end] = b"\1" * len(run)
            failed = failures.get(piece.start)
            yield piece.start, decode_piece(piece, result, failed, opener, files)
    if result.state.is_final and not result.has_more:
        for start, end in _gaps(array):
            yield start, [FailedValue(item_error(result, item, None)) for item in range(start, end)]


def _gaps(array: MapArray) -> list[tuple[int, int]]:
    """Runs of unreported items, which are then marked as seen."""
    gaps = []
    start = array.seen.find(0)
    while start >= 0:
        end = array.seen.find(1, start)
        end = len(array.seen) if end < 0 else end
        array.seen[start:end] = b"\1" * (end - start)
        gaps.append((start, end))
        start = array.seen.find(0)
    return gaps
