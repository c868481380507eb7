"""Waiting and dropping in the event loop."""

import asyncio
from typing import Any


async def readable(descriptor: int) -> None:
    """Returns when a read would not block: data, end of file, or, for a pidfd, the end of life."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, _resolve, ready)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


async def writable(descriptor: int) -> None:
    """Returns when a write would not block, or the other end is gone."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_writer(descriptor, _resolve, ready)
    try:
        await ready
    finally:
        loop.remove_writer(descriptor)


def _resolve(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


async def drop(*tasks: asyncio.Task[Any]) -> None:
    """Cancels them and returns when they have let go of everything."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
