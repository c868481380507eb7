"""`potluck.Executor()`: the pool as a standard executor.

    with potluck.Executor(gpu=True, dependencies=["torch"]) as executor:
        futures = [executor.submit(train, rate) for rate in (0.1, 0.01)]
        print([future.result() for future in futures])

It takes any function: decorated or not, lambdas, partials, methods. Unlike the executors of the
standard library, exceptions come back as `RemoteError`, since nothing from a node is executed here;
`cancel`, Ctrl-C and a timeout of `result` also end running tasks.
"""

import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from types import FunctionType
from typing import ParamSpec, TypeVar, Unpack, cast

from potluck.consumer.functions.call import Code, FunctionOrder
from potluck.consumer.functions.capture import capture_references, is_lasting
from potluck.consumer.functions.dispatch import UploadedFunction, get_dispatch
from potluck.consumer.functions.function import RemoteFunction
from potluck.consumer.functions.future import TaskFuture
from potluck.consumer.functions.mapping import TaskMap, count_items
from potluck.consumer.functions.options import FunctionOptions, parse_options, rename_aliases
from potluck.consumer.functions.pickling import check_gives_value
from potluck.consumer.functions.submit import submit
from potluck.consumer.http.thread_map import map_in_threads

P = ParamSpec("P")
R = TypeVar("R")

_MOST_FUNCTIONS = 64


class Executor(futures.Executor):
    """Runs functions on the nodes of a pool. It takes the options of `@potluck.task`."""

    def __init__(self, **wishes: Unpack[FunctionOptions]):
        self._options = parse_options(rename_aliases(wishes))
        self._uploads = UploadedFunction()
        self._orders: OrderedDict[Callable[..., object], FunctionOrder] = OrderedDict()
        self._lock = threading.Lock()
        self._live: set[TaskFuture[object]] = set()
        self._maps: set[TaskMap[object]] = set()
        self._is_shut = False
        _EXECUTORS.add(self)

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> TaskFuture[R]:
        """Submits one call, with the present state of the function and its arguments."""
        order = self._order(fn)
        future = submit(order, args, kwargs)
        with self._lock:
            is_late = self._is_shut  # while it was sent: `shutdown` would not wait for it
            if not is_late:
                self._live.add(future)
        if is_late:
            future.cancel()
            raise _is_shut_down()
        future.add_done_callback(self._forget)
        return cast(TaskFuture[R], future)

    def map(
        self,
        fn: Callable[..., R],
        *iterables: Iterable[object],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[R]:
        """Like `map(fn, *iterables)`, on many nodes, with the results in order.

        Up to forty thousand inputs are read immediately, the rest as results are taken. `timeout`
        is for all results, from now on. `chunksize` has no effect: the pool chooses how many items
        a node gets at a time.
        """
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        until = None if timeout is None else time.monotonic() + timeout
        order = self._order(fn)
        inputs: Iterator[tuple[object, ...]] = zip(*iterables, strict=False)
        dispatch, total = get_dispatch(self._options.client), count_items(iterables)
        mapped: TaskMap[object] = TaskMap(order, dispatch, inputs, is_eager=True, total=total)
        with self._lock:
            is_late = self._is_shut
            if not is_late:
                self._maps.add(mapped)
        if is_late:
            mapped.close()
            raise _is_shut_down()
        return cast(Iterator[R], self._results(mapped, until))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accepts no more calls, and waits for the running ones unless `wait` is false.

        `cancel_futures` cancels the tasks that have not started.
        """
        with self._lock:
            self._is_shut = True
            live, maps = list(self._live), list(self._maps)
        if cancel_futures:
            map_in_threads(lambda future: future.cancel_waiting(), live)
            map_in_threads(lambda mapped: mapped.cancel_waiting(), maps)
        if wait:
            futures.wait(live)
            for mapped in maps:
                mapped.wait()
        with self._lock:
            self._maps.clear()

    def _results(self, mapped: TaskMap[object], until: float | None) -> Iterator[object]:
        """Cancels the rest after an error or an abandoned iteration, as other executors do."""
        try:
            while True:
                rest = None if until is None else max(0.0, until - time.monotonic())
                try:
                    result = mapped.next(rest)
                except StopIteration:
                    return
                yield result
        finally:
            mapped.close()
            with self._lock:
                self._maps.discard(mapped)

    def _order(self, function: Callable[..., object]) -> FunctionOrder:
        if self._is_shut:
            raise _is_shut_down()
        if isinstance(function, RemoteFunction):
            function = function.local_function
        check_gives_value(function)
        order = FunctionOrder(Code(function), self._options, self._uploads)
        # One with state may have changed since it was called last.
        if not isinstance(function, FunctionType) or not is_lasting(capture_references(function)):
            return order
        with self._lock:
            order = self._orders.setdefault(function, order)
            self._orders.move_to_end(function)
            if len(self._orders) > _MOST_FUNCTIONS:
                self._orders.popitem(last=False)
            return order

    def _forget(self, future: futures.Future[object]) -> None:
        with self._lock:
            self._live.discard(cast(TaskFuture[object], future))

    def _begin_anew(self) -> None:
        """In a child process: submissions are the parent's, which may hold the lock."""
        self._lock = threading.Lock()
        self._live = set()
        self._maps = set()


def _is_shut_down() -> RuntimeError:
    return RuntimeError("cannot schedule new futures after shutdown")


_EXECUTORS: "weakref.WeakSet[Executor]" = weakref.WeakSet()


def _begin_anew() -> None:
    for executor in _EXECUTORS:
        executor._begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
