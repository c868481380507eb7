"""Waiting in the event loop until a file descriptor has something to say."""

import asyncio


async def readable(descriptor: int) -> None:
    """Returns when a read would not block: data, end of file, or, for a pidfd, the end of life."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, _resolve, ready)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


def _resolve(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
