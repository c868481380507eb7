"""Finishing and dropping work of the event loop when somebody cancels."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def undisturbed(work: Coroutine[Any, Any, T]) -> T:
    """Finishes the work even when the caller is cancelled meanwhile, and cancels afterwards."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as request:
            cancelled = request
    if cancelled is not None:
        raise cancelled
    return task.result()


async def drop(*tasks: asyncio.Task[Any]) -> None:
    """Cancels them and returns when they have let go of everything."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
