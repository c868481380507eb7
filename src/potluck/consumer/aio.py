"""The bridge to asyncio: one way for every call, and one for everything that is iterated.

    loss = await train.submit(0.1)                  # a future is awaited as it is
    async for loss in train.map(rates): ...         # so are maps, and what is followed
    task = await aio.call(client.tasks.get, task_id)
    async for entry in aio.each(client.ledger.entries()): ...

The client itself stays synchronous: whatever waits does so in a thread, and the loop goes on.

What a cancelled await does. Of a future: the task is called off, as `asyncio` does it with tasks of
its own; `asyncio.shield(future)` lets it go on. Of a call: it goes on to its end in its thread, and
nobody is told; what it asked for may have happened. Of an iteration: nothing is lost, and whoever
goes on with it gets what the cancelled one waited for.
"""

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Generic, ParamSpec, Self, TypeVar

from potluck.local.detached_thread import in_own_thread

P = ParamSpec("P")
T = TypeVar("T")

_IDLE_SECONDS = 1.0  # then the thread of an iteration ends, until somebody goes on with it

__all__ = ["Each", "call", "each"]


async def call(function: Callable[P, T], /, *arguments: P.args, **named: P.kwargs) -> T:
    """What the function returns, called in a thread of its own, which keeps nobody from leaving."""
    context = contextvars.copy_context()
    return await asyncio.wrap_future(
        in_own_thread(lambda: context.run(function, *arguments, **named))
    )


def each(iterable: Iterable[T]) -> "Each[T]":
    """The same items one after the other, for `async for`."""
    return Each(iterable)


class Each(AsyncIterator[T], Generic[T]):
    """Iterates in a thread; nothing is read that nobody asked for.

    An error ends the iteration only if it ends the iterable's own: of a map, the next item is
    behind the one that failed.
    """

    def __init__(self, iterable: Iterable[T]):
        self._reader = _ThreadReader(iterable)
        self._wish: Future[T] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while True:
            # Cancelled, it is still wished for, and the next one to ask gets it, in any event loop.
            wish = self._wish = self._wish or self._reader.wish()
            await _answered(wish)
            if self._wish is not wish:  # another who waited for it was quicker
                continue
            self._wish = None
            try:
                return wish.result()
            except _Over:
                raise StopAsyncIteration from None

    async def aclose(self) -> None:
        """Ends it for good: a map is closed, so that the rest of it is called off."""
        await call(self._reader.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Over(Exception):
    pass


class _ThreadReader(Generic[T]):
    """Takes items as they are wished for, by a thread that ends when nobody wishes for a while: it
    knows the iterable, which nobody else may want any more.
    """

    def __init__(self, iterable: Iterable[T]):
        self._iterable = iterable
        self._iterator: Iterator[T] | None = None
        self._turn = threading.Condition()
        self._wishes: deque[Future[T]] = deque()
        self._is_served = False
        self._is_closed = False

    def wish(self) -> "Future[T]":
        wish: Future[T] = Future()
        wish.set_running_or_notify_cancel()
        with self._turn:
            self._wishes.append(wish)
            self._turn.notify_all()
            if self._is_served:
                return wish
            self._is_served = True
        threading.Thread(target=self._serve, name="potluck-each", daemon=True).start()
        return wish

    def close(self) -> None:
        """What waits for news is told that nobody wants any; a generator that runs is closed by
        the thread that runs it.
        """
        with self._turn:
            self._is_closed = True
            is_idle = not self._is_served
            self._turn.notify_all()
        if is_idle or not isinstance(self._iterable, Generator):
            self._close()

    def _serve(self) -> None:
        while (wish := self._next()) is not None:
            try:
                wish.set_result(self._take())
            except StopIteration:
                wish.set_exception(_Over())
            except BaseException as error:  # noqa: BLE001 - told to whoever asks
                wish.set_exception(error)

    def _take(self) -> T:
        if self._is_closed:
            raise StopIteration
        if self._iterator is None:
            self._iterator = iter(self._iterable)
        return next(self._iterator)

    def _next(self) -> "Future[T] | None":
        with self._turn:
            self._turn.wait_for(lambda: self._wishes or self._is_closed, _IDLE_SECONDS)
            if self._wishes:
                return self._wishes.popleft()
            self._is_served = False
        if self._is_closed:
            self._close()
        return None

    def _close(self) -> None:
        for ended in (self._iterator, self._iterable):
            close = getattr(ended, "close", None)
            if close is not None:
                with suppress(ValueError):  # a generator that another thread runs just now
                    close()


async def _answered(wish: "Future[T]") -> None:
    """Waits for it in this event loop, which the wish may outlive."""
    waiting = asyncio.wrap_future(wish)
    waiting.add_done_callback(_is_seen)
    try:
        await asyncio.wait([waiting])
    finally:
        waiting.cancel()  # the wish itself runs, and is not cancelled by that


def _is_seen(answered: "asyncio.Future[T]") -> None:
    """Whoever goes away without it is not told of an error that he did not want to know."""
    if not answered.cancelled():
        answered.exception()
