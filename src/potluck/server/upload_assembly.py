"""Assembles uploads in the background; a second request for the same upload joins the first."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

# Leaves disk and CPU time for other work.
_MAX_CONCURRENT = 2


class Assemblies:
    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT)

    async def join(
        self, upload_id: str, work: Callable[[], Coroutine[Any, Any, None]], seconds: float
    ) -> bool:
        """Returns whether it finishes within the time. Raises the error of the work."""
        task = self._running.get(upload_id)
        if task is None:
            task = asyncio.create_task(self._run(work))
            self._running[upload_id] = task
            task.add_done_callback(lambda _: self._forget(upload_id))
        done, _ = await asyncio.wait([task], timeout=seconds)
        if done:
            task.result()
        return bool(done)

    async def _run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async with self._slots:
            await work()

    def _forget(self, upload_id: str) -> None:
        """Retrieves an error that no caller waited for: the next request tries again."""
        task = self._running.pop(upload_id)
        if not task.cancelled():
            task.exception()
