"""Shared commits: what arrives while a transaction commits goes into the next one together.

The first with a key goes at once, and nothing waits for a fixed time: alone, a member costs what it
would without this. Members with different keys never share a transaction, so none of them waits
for the locks of another or fails with it; PostgreSQL flushes their commits together anyway.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

M = TypeVar("M")
A = TypeVar("A")
# Returns an answer, or the error, for each member in order.
Batch = Callable[[Sequence[M]], Awaitable[Sequence[A | Exception]]]

_MOST = 100  # members of one transaction


class SharedCommits(Generic[M, A]):
    def __init__(self) -> None:
        # Of each key that has a transaction under way: what waits for its end.
        self._waiting: dict[Hashable, list[tuple[M, asyncio.Future[A]]]] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def add(self, key: Hashable, member: M, batch: Batch[M, A]) -> A:
        """Returns the member's answer, or raises its error. Equal keys share transactions."""
        answered: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        if (waiting := self._waiting.get(key)) is not None:
            waiting.append((member, answered))
        else:
            self._waiting[key] = [(member, answered)]
            # A task of its own: the others go on if the first caller has gone.
            running = asyncio.create_task(self._run(key, batch))
            self._running.add(running)
            running.add_done_callback(self._running.discard)
        return await answered

    async def _run(self, key: Hashable, batch: Batch[M, A]) -> None:
        members = self._waiting[key]
        try:
            while members:
                taken = members[:_MOST]
                del members[:_MOST]
                await _answer(taken, batch)
        finally:
            del self._waiting[key]
            for _, answered in members:
                answered.cancel()


async def _answer(taken: list[tuple[M, asyncio.Future[A]]], batch: Batch[M, A]) -> None:
    answers: Sequence[A | Exception] = ()
    try:
        answers = await batch([member for member, _ in taken])
    except Exception as error:  # noqa: BLE001 - it belongs to the callers
        answers = [error] * len(taken)
    finally:
        for (_, answered), answer in zip(taken, answers, strict=False):
            if answered.done():
                continue  # its caller has gone
            if isinstance(answer, Exception):
                answered.set_exception(answer)
            else:
                answered.set_result(answer)
        for _, answered in taken[len(answers) :]:
            answered.cancel()
