"""A function over many inputs: inputs are sent as arrays of items while results arrive.

Taking a result reads inputs, only so far ahead as keeps the pool busy: a generator of a million
items costs the memory of a few arrays. The first array is sent soon, even if the generator is slow.
Results come in the order of the inputs, or as they arrive.
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
from potluck.consumer.functions.decode_value import FailedValue, ValueDecoder
from potluck.consumer.functions.dispatch import Dispatch
from potluck.consumer.functions.inputs import ARRAY_ITEMS, InputReader
from potluck.consumer.functions.map_array import Inbox, MapArray, MapTally, decode_result
from potluck.consumer.functions.progress import MapProgress, ProgressWatch
from potluck.consumer.functions.sender import Submission
from potluck.consumer.functions.submit import run_off_loop
from potluck.model.error import PotluckError
from potluck.model.ids import TaskId
from potluck.wire import item_file
from potluck.wire.results import TaskResult


class AsTheyCome:
    def __init__(self) -> None:
        self.ready: deque[object] = deque()

    def add(self, start: int, values: list[object]) -> None:  # noqa: ARG002 - in any order
        self.ready.extend(values)


class InOrder:
    """Early values wait until all before them have arrived."""

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
    """The results of `.map()`. Closing or dropping it early cancels the rest. `task_ids` are those
    of the arrays so far.
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
        """With `is_eager`, as many inputs are read immediately as may be ahead of the results."""
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
        self._opener: ValueDecoder | None = None
        self._error: PotluckError | None = None
        self._each: AsyncIterator[T] | None = None
        self._is_eager = is_eager
        run_off_loop(dispatch, self._begin, self._refused)

    @property
    def task_ids(self) -> list[TaskId]:
        return [array.task_id for array in self._arrays if array.task_id is not None]

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        return self.next()

    def next(self, timeout: float | None = None) -> T:
        """The next result. Ctrl-C and a timeout cancel the rest, unless `keep_running`."""
        try:
            return self._next(timeout)
        except KeyboardInterrupt:
            if not self._order.options.keep_running:
                self.close()
            raise

    def _next(self, timeout: float | None) -> T:
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
                self._wait(until, timeout)
            if self._watch.is_due:
                self._watch.tell(self.how_far())
        self._delivered += 1
        value = ready.popleft()
        if type(value) is not FailedValue:
            return cast(T, value)
        if self._return_exceptions:
            return cast(T, value.error)
        raise value.error

    def _wait(self, until: float | None, timeout: float | None) -> None:
        """Waits for results, or until the progress display is due."""
        ends = [at for at in (until, self._watch.next_at) if at is not None]
        is_news = self._inbox.wait(min(ends, default=None))
        if not is_news and until is not None and time.monotonic() >= until:
            stages = [self._dispatch.stage(task_id) for task_id in self.task_ids[:1]]
            keeps_running = self._order.options.keep_running
            if not keeps_running:
                self.close()
            end = "it continues" if keeps_running else "the rest is cancelled"
            stage = "; ".join(stages) or "it is being submitted"
            raise TimeoutError(f"No result within {timeout or 0:g} seconds; {end}: {stage}")

    def how_far(self, is_over: bool = False) -> MapProgress:
        """The number of finished items and of all items."""
        name, seconds = self._order.code.name, self._watch.seconds
        tally = self._tally
        return MapProgress(
            name, tally.known, tally.failed, self._sent, self._total, seconds, is_over
        )

    def _ipython_display_(self) -> None:
        """In a notebook: the progress, until all results are known."""
        notebook.show_live(lambda: self.how_far(is_over=self._has_all_results()).picture)

    def _has_all_results(self) -> bool:
        return self._tally.known >= self._sent and self._reader.is_over

    def __aiter__(self) -> AsyncIterator[T]:
        """For `async for`: a thread waits for the results."""
        from potluck.consumer.aio import each

        # One bridge for all iterations: the next one gets the result that a cancelled one awaited.
        if self._each is None:
            self._each = each(self)
        return self._each

    def __enter__(self) -> "TaskMap[T]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_arrays") and not sys.is_finalizing():  # __init__ got that far
            self.close()

    def close(self) -> None:
        """Cancels the remaining arrays.

        Does nothing in a child process: the map is the parent's, which may hold its locks.
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
        """Waits until all sent items have a result, reading none; false after the timeout."""
        until = None if timeout is None else time.monotonic() + timeout
        with self._feeding:
            arrays = list(self._arrays)
        return all(array.wait(until) for array in arrays)

    def cancel_waiting(self) -> None:
        """Cancels the arrays of which no item has started."""
        with self._feeding:
            self._reader.end()
            for array in self._arrays:
                if array.task_id is None or self._dispatch.is_waiting(array.task_id):
                    array.cancel()

    def _begin(self) -> None:
        """Sends the first array before any result is taken."""
        with self._feeding:
            while self._feed() and self._is_eager:
                pass

    def _refused(self, error: PotluckError) -> None:
        """Keeps the error of the preparation thread for the next call."""
        self._error = error

    def _feed(self) -> bool:
        with self._feeding:
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            return self._feed_next()

    def _feed_next(self) -> bool:
        """Sends another array, if few enough are ahead and there are inputs.

        If the server does not answer, the next call sends the same items again. Any other error,
        such as an input that cannot be pickled, ends the map: later items would be misplaced.
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
        assert self._opener is not None, "it is set before anything is sent"
        for array, result in news:
            for start, values in decode_result(array, result, self._opener, self._dispatch):
                self._sequence.add(array.offset + start, values)
            if array.is_over() and array in self._arrays:
                self._arrays.remove(array)
                array.leave()


def count_items(iterables: Sequence[Iterable[object]]) -> int | None:
    """The number of items that `zip` of them yields; None if one of them has no length."""
    counts = [len(iterable) for iterable in iterables if isinstance(iterable, Sized)]
    return min(counts) if counts and len(counts) == len(iterables) else None
