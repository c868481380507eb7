"""Locks by key, so that equal work is done once and different work at the same time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from weakref import WeakValueDictionary


class KeyedLocks:
    """A lock for each key, which exists as long as it is held or awaited."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[tuple[str, ...], asyncio.Lock] = WeakValueDictionary()

    @contextlib.asynccontextmanager
    async def take(self, *key: str) -> AsyncIterator[None]:
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            yield
