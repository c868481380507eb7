"""The tasks of a map, each an array of items, and what is told of them."""

import threading
import time
from collections.abc import Iterator

from potluck.consumer.functions.decode_value import FailedValue, Opener
from potluck.consumer.functions.dispatch import Dispatch
from potluck.consumer.functions.failure_text import item_ended
from potluck.consumer.functions.pieces import failures_in, values_of
from potluck.model.error import PotluckError, TaskFailed
from potluck.model.ids import TaskId
from potluck.wire.results import TaskResult


class MapTally:
    """How many items of a map are known to be done, read or not, and how many of them failed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.known = self.failed = 0

    def add(self, known: int, failed: int) -> None:
        with self._lock:
            self.known += known
            self.failed += failed


class Inbox:
    """What the threads that wait for results have brought for one map."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._news: list[tuple[MapArray, TaskResult | PotluckError]] = []
        self._is_over = False

    def put(self, array: "MapArray", told: TaskResult | PotluckError) -> None:
        with self._turn:
            self._news.append((array, told))
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
        """Nobody is to wait for anything any more, in whichever thread."""
        with self._turn:
            self._is_over = True
            self._turn.notify_all()


class MapArray:
    """One task of a map: its items stand from `offset` on among all of them."""

    def __init__(self, dispatch: Dispatch, inbox: Inbox, tally: MapTally, offset: int, count: int):
        self.task_id: TaskId | None = None
        self.offset = offset
        self.seen = bytearray(count)
        self._dispatch = dispatch
        self._inbox = inbox
        self._tally = tally
        self._untold = count
        self._is_unwanted = False
        self._is_called_off = False
        self._is_settled = threading.Event()

    def submitted(self, task_id: TaskId) -> None:
        self.task_id = task_id
        if not self._is_unwanted:
            self._dispatch.collector.watch(task_id, self)
        if self._is_unwanted or self._is_called_off:
            self._dispatch.sender.call_off(task_id)

    def refused(self, error: PotluckError) -> None:
        self._give_up()
        self._inbox.put(self, error)

    def lost(self, error: PotluckError) -> None:
        self._give_up()
        self._inbox.put(self, error)

    def told(self, result: TaskResult) -> None:
        known = sum(piece.end - piece.start for piece in result.pieces)
        failed = sum(piece.end - piece.start for piece in result.pieces if piece.is_error)
        self._untold -= known
        self._tally.add(known, failed)
        if self._untold <= 0 or (result.state.is_final and not result.has_more):
            self._give_up()
            self._untold = 0
        self._inbox.put(self, result)

    def _give_up(self) -> None:
        """Nothing more will be told: what nothing was told of has failed."""
        if not self._is_settled.is_set():
            rest = max(self._untold, 0)
            self._tally.add(rest, rest)
            self._is_settled.set()

    def wait(self, until: float | None) -> bool:
        """Until nothing more will be told of it."""
        rest = None if until is None else max(0.0, until - time.monotonic())
        return self._is_settled.wait(rest)

    def is_over(self) -> bool:
        """Of every item it is known what it gave; the task itself may end a moment later."""
        return 0 not in self.seen

    def leave(self) -> None:
        if self.task_id is not None:
            self._dispatch.collector.forget(self.task_id)

    def cancel(self) -> None:
        """Its items are told as cancelled, to whoever still asks for them.

        On its way, it is called off as soon as it has an id.
        """
        self._is_called_off = True
        if self.task_id is not None:
            self._dispatch.sender.call_off(self.task_id)
        elif self._dispatch.sender.take_back(self):
            self.refused(TaskFailed("It was called off before it was sent.", "Call it again."))

    def call_off(self) -> None:
        """What is computed already stays so, also if nobody has looked at it."""
        self._is_unwanted = True
        self._is_settled.set()
        self.leave()
        if self._untold <= 0:
            return
        if self.task_id is not None:
            self._dispatch.sender.call_off(self.task_id)
        else:
            self._dispatch.sender.take_back(self)


def opened(
    array: MapArray, told: TaskResult | PotluckError, opener: Opener, dispatch: Dispatch
) -> Iterator[tuple[int, list[object]]]:
    """Runs of items with their values, each item once; at the end also those that gave nothing."""
    if isinstance(told, PotluckError):
        for start, end in _gaps(array):
            yield start, [FailedValue(told)] * (end - start)
        return
    files, tasks = dispatch.client.files, dispatch.client.tasks
    failures = failures_in(told, tasks)
    for piece in told.pieces:
        run = array.seen[piece.start : piece.end]
        if len(run) == piece.end - piece.start and not any(run):
            array.seen[piece.start : piece.end] = b"\1" * len(run)
            failed = failures.get(piece.start)
            yield piece.start, values_of(piece, told, failed, opener, files)
    if told.state.is_final and not told.has_more:
        for start, end in _gaps(array):
            yield start, [FailedValue(item_ended(told, item, None)) for item in range(start, end)]


def _gaps(array: MapArray) -> list[tuple[int, int]]:
    """Runs of items that nothing was told of; they count as told from now on."""
    gaps = []
    start = array.seen.find(0)
    while start >= 0:
        end = array.seen.find(1, start)
        end = len(array.seen) if end < 0 else end
        array.seen[start:end] = b"\1" * (end - start)
        gaps.append((start, end))
        start = array.seen.find(0)
    return gaps
