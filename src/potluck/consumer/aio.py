"""The bridge to asyncio: `call` for every call, `each` for every iteration.

    loss = await train.submit(0.1)                  # futures can be awaited directly
    async for loss in train.map(rates): ...         # so can maps and streams
    task = await aio.call(client.tasks.get, task_id)
    async for entry in aio.each(client.ledger.entries()): ...

The client itself is synchronous: it waits in a thread, and the event loop stays free.

Cancelling the await of a future cancels the task, as with asyncio's own tasks, unless the future is
shielded (`asyncio.shield`). A cancelled call runs to its end in its thread; the result is dropped,
its effect may remain. A cancelled iteration loses nothing: the next `__anext__` gets the item.
"""

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Generic, ParamSpec, Self, TypeVar

from potluck.local.detached_thread import run_in_daemon_thread

P = ParamSpec("P")
T = TypeVar("T")

_IDLE_SECONDS = 1.0  # after which the thread of an iteration ends; the next request starts another

__all__ = ["Each", "call", "each"]


async def call(function: Callable[P, T], /, *arguments: P.args, **named: P.kwargs) -> T:
    """Calls the function in a daemon thread of its own and returns its result."""
    context = contextvars.copy_context()
    return await asyncio.wrap_future(
        run_in_daemon_thread(lambda: context.run(function, *arguments, **named))
    )


def each(iterable: Iterable[T]) -> "Each[T]":
    """The same items, for `async for`."""
    return Each(iterable)


class Each(AsyncIterator[T], Generic[T]):
    """Iterates in a thread and reads nothing ahead.

    An error ends the iteration only if it ends the iterable's own: a map continues after an item
    that failed.
    """

    def __init__(self, iterable: Iterable[T]):
        self._reader = _ThreadReader(iterable)
        self._pending: Future[T] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while True:
            # A cancelled request stays pending; the next caller gets its item, in any event loop.
            request = self._pending = self._pending or self._reader.request()
            await _wait_for(request)
            if self._pending is not request:  # another waiter took it
                continue
            self._pending = None
            try:
                return request.result()
            except _Over:
                raise StopAsyncIteration from None

    async def aclose(self) -> None:
        """Ends the iteration; closing a map cancels the rest of it."""
        await call(self._reader.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Over(Exception):
    pass


class _ThreadReader(Generic[T]):
    """Reads an item for each request, in a thread that ends when idle, so that it does not keep an
    abandoned iterable alive.
    """

    def __init__(self, iterable: Iterable[T]):
        self._iterable = iterable
        self._iterator: Iterator[T] | None = None
        self._turn = threading.Condition()
        self._requests: deque[Future[T]] = deque()
        self._is_running = False
        self._is_closed = False

    def request(self) -> "Future[T]":
        request: Future[T] = Future()
        request.set_running_or_notify_cancel()
        with self._turn:
            self._requests.append(request)
            self._turn.notify_all()
            if self._is_running:
                return request
            self._is_running = True
        threading.Thread(target=self._serve, name="potluck-each", daemon=True).start()
        return request

    def close(self) -> None:
        """Closes the iterable; a running generator is closed by the thread that runs it."""
        with self._turn:
            self._is_closed = True
            is_idle = not self._is_running
            self._turn.notify_all()
        if is_idle or not isinstance(self._iterable, Generator):
            self._close()

    def _serve(self) -> None:
        while (request := self._next()) is not None:
            try:
                request.set_result(self._take())
            except StopIteration:
                request.set_exception(_Over())
            except BaseException as error:  # noqa: BLE001 - raised to the caller
                request.set_exception(error)

    def _take(self) -> T:
        if self._is_closed:
            raise StopIteration
        if self._iterator is None:
            self._iterator = iter(self._iterable)
        return next(self._iterator)

    def _next(self) -> "Future[T] | None":
        with self._turn:
            self._turn.wait_for(lambda: self._requests or self._is_closed, _IDLE_SECONDS)
            if self._requests:
                return self._requests.popleft()
            self._is_running = False
        if self._is_closed:
            self._close()
        return None

    def _close(self) -> None:
        for source in (self._iterator, self._iterable):
            close = getattr(source, "close", None)
            if close is not None:
                with suppress(ValueError):  # another thread is running the generator
                    close()


async def _wait_for(request: "Future[T]") -> None:
    """Waits in this event loop, which the request may outlive."""
    waiting = asyncio.wrap_future(request)
    waiting.add_done_callback(_retrieve_exception)
    try:
        await asyncio.wait([waiting])
    finally:
        waiting.cancel()  # the request itself is running, which this does not cancel


def _retrieve_exception(waiting: "asyncio.Future[T]") -> None:
    """So that asyncio does not report an exception as never retrieved."""
    if not waiting.cancelled():
        waiting.exception()
