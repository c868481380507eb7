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
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence, Sized
from typing import Generic, TypeVar, cast

from potluck.consumer import notebook
from potluck.consumer.functions.call import FunctionOrder
from potluck.consumer.functions.decode_value import FailedValue, Opener
from potluck.consumer.functions.dispatch import Dispatch
from potluck.consumer.functions.inputs import ARRAY_ITEMS, InputReader
from potluck.consumer.functions.map_array import (
    Inbox,
    MapArray,
    MapTally,
    opened,
)
from potluck.consumer.functions.progress import HowFar, ProgressWatch
from potluck.consumer.functions.sender import Submission
from potluck.consumer.functions.submit import soon
from potluck.model.error import PotluckError
from potluck.model.ids import TaskId
from potluck.wire import item_file
from potluck.wire.results import TaskResult


class AsTheyCome:
    def __init__(self) -> None:
        self.ready: deque[object] = deque()

    def add(self, start: int, values: list[object]) -> None:  # noqa: ARG002 - wherever it is
        self.ready.extend(values)


class InOrder:
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


T = TypeVar("T")

_AHEAD_ITEMS = 4 * ARRAY_ITEMS


class TaskMap(Generic[T]):
    """The results of `.map()`. Whoever stops early closes it, or lets it go: the rest is called
    off. `task_ids` are those of the arrays so far.
    """

    def __init__(
        self,
        order: FunctionOrder,
        dispatch: Dispatch,
        inputs: Iterator[tuple[object, ...]],
        ordered: bool = True,
        return_exceptions: bool = False,
        is_eager: bool = False,
        total: int | None = None,
    ):
        """With `is_eager` as many inputs are read at once as may be ahead of the results."""
        self._order = order
        self._dispatch = dispatch
        self._reader = InputReader(order, inputs)
        self._sequence = InOrder() if ordered else AsTheyCome()
        self._return_exceptions = return_exceptions
        self._inbox = Inbox()
        self._feeding = threading.RLock()
        self._arrays: list[MapArray] = []
        self._sent = self._delivered = 0
        self._tally = MapTally()
        self._total = total
        self._watch = ProgressWatch(order.options.progress)
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
                    self._watch.end(self.how_far(is_over=True))
                    raise StopIteration
                self._wait(until)
            if self._watch.is_due:
                self._watch.tell(self.how_far())
        self._delivered += 1
        value = ready.popleft()
        if type(value) is not FailedValue:
            return cast(T, value)
        if self._return_exceptions:
            return cast(T, value.error)
        raise value.error

    def _wait(self, until: float | None) -> None:
        """For news, or until it is time to tell how far we are."""
        ends = [at for at in (until, self._watch.next_at) if at is not None]
        is_news = self._inbox.wait(min(ends, default=None))
        if not is_news and until is not None and time.monotonic() >= until:
            raise TimeoutError("The next result is not there yet.")

    def how_far(self, is_over: bool = False) -> HowFar:
        """How many items are known to be done, and how many there are."""
        name, seconds = self._order.code.name, self._watch.seconds
        tally = self._tally
        return HowFar(name, tally.known, tally.failed, self._sent, self._total, seconds, is_over)

    def _ipython_display_(self) -> None:
        """In a notebook: how far it has come, as long as it goes on."""
        notebook.show_live(lambda: self.how_far(is_over=self._is_told()).picture)

    def _is_told(self) -> bool:
        """Whether nothing more is to come of what was sent."""
        return self._tally.known >= self._sent and self._reader.is_over

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
        """What nobody will be told is not computed either.

        In a child process nothing is done: it is the parent's, which may hold its locks.
        """
        if self._dispatch.is_ours():
            with self._feeding:
                self._end()

    def _end(self) -> None:
        for array in self._arrays:
            array.call_off()
        self._arrays.clear()
        self._watch.end(self.how_far(is_over=True))
        self._inbox.end()
        self._inbox = Inbox()
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
        array = MapArray(self._dispatch, self._inbox, self._tally, self._sent, len(items))
        self._dispatch.sender.put(Submission(request, array))
        self._arrays.append(array)
        self._sent += len(items)
        self._reader.sent()
        return True

    def _absorb(self, news: "list[tuple[MapArray, TaskResult | PotluckError]]") -> None:
        assert self._opener is not None, "it is known before anything is sent"
        for array, told in news:
            for start, values in opened(array, told, self._opener, self._dispatch):
                self._sequence.add(array.offset + start, values)
            if array.is_over() and array in self._arrays:
                self._arrays.remove(array)
                array.leave()


def count_of(iterables: Sequence[Iterable[object]]) -> int | None:
    """How many items they make together; None if one of them does not say."""
    counts = [len(each) for each in iterables if isinstance(each, Sized)]
    return min(counts) if counts and len(counts) == len(iterables) else None
