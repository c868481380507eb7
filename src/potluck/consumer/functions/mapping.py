"""A function over many inputs: arrays of items go out as the inputs are read, results come in.

Inputs are read by whoever asks for the next result, and only so far ahead as keeps the pool busy:
a generator of a million costs the memory of a few arrays. The first array goes out soon, whatever
the generator does. Results come in the order of the inputs, or as they are there.
"""

import heapq
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Generic, TypeVar, cast

from potluck.consumer.functions.call import Order
from potluck.consumer.functions.dispatch import Dispatch
from potluck.consumer.functions.ending import item_ended
from potluck.consumer.functions.opening import Failed, Opener
from potluck.consumer.functions.pickling import pickled_items
from potluck.consumer.functions.pieces import failures_in, values_of
from potluck.consumer.functions.sender import Submission
from potluck.consumer.functions.submit import soon
from potluck.model.blob import INLINE_BYTES
from potluck.model.error import PotluckError, TaskFailed
from potluck.model.ids import TaskId
from potluck.wire import item_file
from potluck.wire.results import TaskResult

T = TypeVar("T")

ARRAY_ITEMS = 10_000
_FEW_ITEMS = 1_000  # so many may go as a blob; more are cut to what needs none
_ARRAY_BYTES = 8 * 2**20
_AHEAD_ITEMS = 4 * ARRAY_ITEMS
_READ_ITEMS = 500  # between two looks at the clock
_READ_SECONDS = 0.1


class TaskMap(Generic[T]):
    """The results of `.map()`. Whoever stops early closes it, or lets it go: the rest is called
    off. `task_ids` are those of the arrays so far.
    """

    def __init__(
        self,
        order: Order,
        dispatch: Dispatch,
        inputs: Iterator[tuple[object, ...]],
        ordered: bool = True,
        return_exceptions: bool = False,
        is_eager: bool = False,
    ):
        """With `is_eager` as many inputs are read at once as may be ahead of the results."""
        self._order = order
        self._dispatch = dispatch
        self._reader = _Reader(order, inputs)
        self._sequence = _Sequence() if ordered else _AsTheyCome()
        self._return_exceptions = return_exceptions
        self._inbox = _Inbox()
        self._feeding = threading.RLock()
        self._arrays: list[_Array] = []
        self._sent = self._delivered = 0
        self._opener: Opener | None = None
        self._trouble: PotluckError | None = None
        self._each: AsyncIterator[T] | None = None
        self._is_eager = is_eager
        soon(dispatch, self._begin, self._refused)

    @property
    def task_ids(self) -> list[TaskId]:
        return [array.task_id for array in self._arrays if array.task_id is not None]

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        return self.next()

    def next(self, timeout: float | None = None) -> T:
        """The next result; raises TimeoutError if it is not there in time."""
        self._dispatch.check_process()
        until = None if timeout is None else time.monotonic() + timeout
        ready = self._sequence.ready
        while not ready:
            news = self._inbox.take()
            if news:
                self._absorb(news)
            elif not self._feed():
                if self._delivered == self._sent:
                    raise StopIteration
                if not self._inbox.wait(until):
                    raise TimeoutError("The next result is not there yet.")
        self._delivered += 1
        value = ready.popleft()
        if type(value) is not Failed:
            return cast(T, value)
        if self._return_exceptions:
            return cast(T, value.error)
        raise value.error

    def __aiter__(self) -> AsyncIterator[T]:
        """For `async for`: results are waited for by a thread, and the loop goes on."""
        from potluck.consumer.aio import each

        # Always the same: what one iteration was cancelled in front of is the next one's.
        if self._each is None:
            self._each = each(self)
        return self._each

    def __enter__(self) -> "TaskMap[T]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_arrays") and not sys.is_finalizing():  # it was made, and we live
            self.close()

    def close(self) -> None:
        """What nobody will be told is not computed either."""
        if self._dispatch.is_ours():
            with self._feeding:
                self._end()
        else:
            self._end()

    def _end(self) -> None:
        if self._dispatch.is_ours():
            for array in self._arrays:
                array.call_off()
        self._arrays.clear()
        self._inbox.end()
        self._inbox = _Inbox()
        self._reader.end()
        self._sent = self._delivered
        self._sequence.ready.clear()

    def wait(self, timeout: float | None = None) -> bool:
        """Until it is known of all that was sent what it gave, and none is read; false: not yet."""
        until = None if timeout is None else time.monotonic() + timeout
        with self._feeding:
            arrays = list(self._arrays)
        return all(array.wait(until) for array in arrays)

    def cancel_waiting(self) -> None:
        """Calls off arrays of which no item has begun."""
        with self._feeding:
            self._reader.end()
            for array in self._arrays:
                if array.task_id is None or self._dispatch.is_waiting(array.task_id):
                    array.cancel()

    def _begin(self) -> None:
        """The first array goes out whether somebody asks for results or not."""
        with self._feeding:
            while self._feed() and self._is_eager:
                pass

    def _refused(self, error: PotluckError) -> None:
        """By who began in our place."""
        self._trouble = error

    def _feed(self) -> bool:
        with self._feeding:
            if self._trouble is not None:
                trouble, self._trouble = self._trouble, None
                raise trouble
            return self._feed_next()

    def _feed_next(self) -> bool:
        """Sends another array, if there is room and something to send.

        If nobody answers now, the next call sends the same again; after any other error, such as
        an input that can not be sent, the map is over: what is behind it would be in wrong places.
        """
        if self._sent - self._delivered >= _AHEAD_ITEMS:
            return False
        try:
            return self._send()
        except Exception as error:
            if not (isinstance(error, PotluckError) and error.retryable):
                self.close()
            raise

    def _send(self) -> bool:
        if self._opener is None:
            self._opener = self._order.opener(self._dispatch)
        items = self._reader.next_items()
        if not items:
            return False
        inputs = self._dispatch.value(item_file.pack(items))
        request = self._order.request(self._dispatch, inputs, len(items))
        array = _Array(self._dispatch, self._inbox, self._sent, len(items))
        self._dispatch.sender.put(Submission(request, array))
        self._arrays.append(array)
        self._sent += len(items)
        self._reader.sent()
        return True

    def _absorb(self, news: "list[tuple[_Array, TaskResult | PotluckError]]") -> None:
        assert self._opener is not None, "it is known before anything is sent"
        for array, told in news:
            for start, values in _opened(array, told, self._opener, self._dispatch):
                self._sequence.add(array.offset + start, values)
            if array.is_over() and array in self._arrays:
                self._arrays.remove(array)
                array.leave()


class _Reader:
    """Inputs, read and pickled ahead by at most an array."""

    def __init__(self, order: Order, inputs: Iterator[tuple[object, ...]]):
        self._order = order
        self._inputs = inputs
        self._unpickled: list[tuple[object, ...]] = []
        self._pickled: deque[bytes] = deque()
        self._bytes = 0
        self._unsent: list[bytes] = []
        self._is_over = False

    def next_items(self) -> list[bytes]:
        """As many as make an array; fewer, if it takes long to get them. The same ones until they
        are `sent`: none is lost when sending them fails.
        """
        if not self._unsent:
            self._unsent = self._next_items()
        return self._unsent

    def sent(self) -> None:
        self._unsent = []

    def _next_items(self) -> list[bytes]:
        until = time.monotonic() + _READ_SECONDS
        while not (self._is_over or self._is_full()):
            self._read(until)
            if time.monotonic() > until:
                break
        return self._taken()

    def end(self) -> None:
        self._is_over = True
        self._pickled.clear()
        self._unsent = []

    def _is_full(self) -> bool:
        return len(self._pickled) >= ARRAY_ITEMS or self._bytes >= _ARRAY_BYTES

    def _read(self, until: float) -> None:
        read = self._unpickled  # kept, in case that Ctrl-C comes in the middle
        clock = time.monotonic
        for item in self._inputs:
            read.append(item)
            if len(read) >= _READ_ITEMS or clock() > until:
                break
        else:
            self._is_over = True
        pickled = pickled_items(read, self._order.modules())
        self._unpickled = []
        self._pickled.extend(pickled)
        self._bytes += sum(map(len, pickled))

    def _fits(self) -> bool:
        """Into one array, and into its request."""
        count = len(self._pickled)
        size = item_file.index_bytes(count) + self._bytes
        return count <= ARRAY_ITEMS and size <= INLINE_BYTES

    def _taken(self) -> list[bytes]:
        taken: list[bytes] = []
        if self._fits():
            taken.extend(self._pickled)
            self._pickled.clear()
        size = item_file.index_bytes(0)
        while self._pickled and len(taken) < ARRAY_ITEMS:
            size += len(self._pickled[0]) + 8
            most = INLINE_BYTES if len(taken) >= _FEW_ITEMS else _ARRAY_BYTES
            if taken and size > most:
                break
            taken.append(self._pickled.popleft())
        self._bytes -= sum(map(len, taken))
        return taken


class _Inbox:
    """What the threads that wait for results have brought for one map."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._news: list[tuple[_Array, TaskResult | PotluckError]] = []
        self._is_over = False

    def put(self, array: "_Array", told: TaskResult | PotluckError) -> None:
        with self._turn:
            self._news.append((array, told))
            self._turn.notify()

    def take(self) -> "list[tuple[_Array, TaskResult | PotluckError]]":
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


class _Array:
    """One task of a map: its items stand from `offset` on among all of them."""

    def __init__(self, dispatch: Dispatch, inbox: _Inbox, offset: int, count: int):
        self.task_id: TaskId | None = None
        self.offset = offset
        self.seen = bytearray(count)
        self._dispatch = dispatch
        self._inbox = inbox
        self._untold = count
        self._is_unwanted = False
        self._is_settled = threading.Event()

    def submitted(self, task_id: TaskId) -> None:
        self.task_id = task_id
        if self._is_unwanted:
            self._dispatch.sender.call_off(task_id)
        else:
            self._dispatch.collector.watch(task_id, self)

    def refused(self, error: PotluckError) -> None:
        self._is_settled.set()
        self._inbox.put(self, error)

    def lost(self, error: PotluckError) -> None:
        self._is_settled.set()
        self._inbox.put(self, error)

    def told(self, result: TaskResult) -> None:
        self._untold -= sum(piece.end - piece.start for piece in result.pieces)
        if self._untold <= 0 or (result.state.is_final and not result.has_more):
            self._is_settled.set()
        self._inbox.put(self, result)

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
        """Its items are told as cancelled, to whoever still asks for them."""
        if self.task_id is not None:
            self._dispatch.sender.call_off(self.task_id)
        elif self._dispatch.sender.take_back(self):
            self.refused(TaskFailed("It was called off before it was sent."))

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


class _AsTheyCome:
    def __init__(self) -> None:
        self.ready: deque[object] = deque()

    def add(self, start: int, values: list[object]) -> None:  # noqa: ARG002 - wherever it is
        self.ready.extend(values)


class _Sequence:
    """What came too early waits until all before it are there."""

    def __init__(self) -> None:
        self.ready: deque[object] = deque()
        self._early: list[tuple[int, list[object]]] = []
        self._next = 0

    def add(self, start: int, values: list[object]) -> None:
        heapq.heappush(self._early, (start, values))
        while self._early and self._early[0][0] == self._next:
            values = heapq.heappop(self._early)[1]
            self.ready.extend(values)
            self._next += len(values)


def _opened(
    array: _Array, told: TaskResult | PotluckError, opener: Opener, dispatch: Dispatch
) -> Iterator[tuple[int, list[object]]]:
    """Runs of items with their values, each item once; at the end also those that gave nothing."""
    if isinstance(told, PotluckError):
        for start, end in _gaps(array):
            yield start, [Failed(told)] * (end - start)
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
            yield start, [Failed(item_ended(told, item, None)) for item in range(start, end)]


def _gaps(array: _Array) -> list[tuple[int, int]]:
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
