"""Uploads that are being put together. It takes as long as it takes; who asks may ask again.

Whoever asks for one that is under way waits for that, and not for a second one.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

# The disk and the processor have other things to do.
_MOST_AT_ONCE = 2


class Assemblies:
    def __init__(self) -> None:
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(_MOST_AT_ONCE)

    async def join(
        self, upload_id: str, work: Callable[[], Coroutine[Any, Any, None]], seconds: float
    ) -> bool:
        """Whether it is done by then. Raises what it raised."""
        task = self._under_way.get(upload_id)
        if task is None:
            task = asyncio.create_task(self._in_turn(work))
            self._under_way[upload_id] = task
            task.add_done_callback(lambda _: self._forget(upload_id))
        done, _ = await asyncio.wait([task], timeout=seconds)
        if done:
            task.result()
        return bool(done)

    async def _in_turn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async with self._turns:
            await work()

    def _forget(self, upload_id: str) -> None:
        """What it raised while nobody waited is told to who asks next, by trying again."""
        task = self._under_way.pop(upload_id)
        if not task.cancelled():
            task.exception()
