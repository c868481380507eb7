"""Counts changes of a state, and how far the server knows them."""

import asyncio


class ChangeCounter:
    def __init__(self) -> None:
        self.changes = 0
        self._known = 0
        self._moved = asyncio.Event()

    def change(self) -> None:
        self.changes += 1
        self._moved.set()

    def acknowledge(self, changes: int) -> None:
        """The server knows this many changes: the count when the message to it was built."""
        self._known = max(self._known, changes)
        self._moved.set()

    @property
    def is_known(self) -> bool:
        return self._known >= self.changes

    async def until_stale(self) -> None:
        """Returns when there is a change that the server does not know."""
        while self.is_known:
            await self._next()

    async def until_known(self) -> None:
        """Returns when the server knows all changes made by now."""
        last = self.changes
        while self._known < last:
            await self._next()

    async def _next(self) -> None:
        self._moved.clear()
        await self._moved.wait()
