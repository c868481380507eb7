"""`potluck.Executor()`: the pool as any other executor, for code that takes one.

    with potluck.Executor(gpu=True, dependencies=["torch"]) as executor:
        futures = [executor.submit(train, rate) for rate in (0.1, 0.01)]
        print([future.result() for future in futures])

It takes functions as they are: decorated or not, lambdas, partials, methods. What differs from the
executors of the standard library: an exception comes back as `RemoteError`, since nothing that a
node answers is ever run here, and `cancel` also ends what runs.
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
from potluck.consumer.functions.capture import captured, is_lasting
from potluck.consumer.functions.dispatch import UploadedFunction, dispatch_of
from potluck.consumer.functions.function import RemoteFunction
from potluck.consumer.functions.future import TaskFuture
from potluck.consumer.functions.mapping import TaskMap, count_of
from potluck.consumer.functions.options import FunctionOptions, by_present_names, understood
from potluck.consumer.functions.pickling import check_gives_value
from potluck.consumer.functions.submit import submit
from potluck.consumer.http.thread_map import at_once

P = ParamSpec("P")
R = TypeVar("R")

_MOST_KNOWN = 64


class Executor(futures.Executor):
    """Runs functions on the nodes of a pool. It takes the options of `@potluck.task`."""

    def __init__(self, **wishes: Unpack[FunctionOptions]):
        self._options = understood(by_present_names(wishes))
        self._remembered = UploadedFunction()
        self._known: OrderedDict[Callable[..., object], Code] = OrderedDict()
        self._lock = threading.Lock()
        self._live: set[TaskFuture[object]] = set()
        self._maps: set[TaskMap[object]] = set()
        self._is_shut = False
        _EXECUTORS.add(self)

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> TaskFuture[R]:
        """Asks for one call. The function and its arguments are taken as they are now."""
        order = self._order(fn)
        future = submit(order, args, kwargs)
        with self._lock:
            is_late = self._is_shut  # while it was sent: nobody would wait for it
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
        """As `map(fn, *iterables)`, on many nodes, with the results in order.

        The inputs are read at once, up to forty thousand of them; the rest as results are taken.
        `timeout` is for the whole, from now on. How many items go to a node at a time is the
        pool's choice, whatever `chunksize` says.
        """
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        until = None if timeout is None else time.monotonic() + timeout
        order = self._order(fn)
        inputs: Iterator[tuple[object, ...]] = zip(*iterables, strict=False)
        dispatch, total = dispatch_of(self._options.client), count_of(iterables)
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
        """Takes nothing more. Waits for what runs, unless told not to: then it goes on without us.

        With `cancel_futures` what has not begun is called off; what runs is left to its end.
        """
        with self._lock:
            self._is_shut = True
            live, maps = list(self._live), list(self._maps)
        if cancel_futures:
            at_once(lambda future: future.cancel_waiting(), live)
            at_once(lambda mapped: mapped.cancel_waiting(), maps)
        if wait:
            futures.wait(live)
            for mapped in maps:
                mapped.wait()
        with self._lock:
            self._maps.clear()

    def _results(self, mapped: TaskMap[object], until: float | None) -> Iterator[object]:
        """After an error, or when nobody goes on, the rest is called off: as others do."""
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
        return FunctionOrder(self._code(function), self._options, self._remembered)

    def _code(self, function: Callable[..., object]) -> Code:
        """The pickle of a function that can not have changed is made once, however often it is
        submitted. What has state goes as it is now.
        """
        if not isinstance(function, FunctionType) or not is_lasting(captured(function)):
            return Code(function)
        with self._lock:
            code = self._known.setdefault(function, Code(function))
            self._known.move_to_end(function)
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
            return code

    def _forget(self, future: futures.Future[object]) -> None:
        with self._lock:
            self._live.discard(cast(TaskFuture[object], future))

    def _begin_anew(self) -> None:
        """In a child process: what was submitted is the parent's, which may hold the lock."""
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
