"""Something that the server is to know: how often it has changed, and what has been heard."""

import asyncio


class ChangeCounter:
    """Counts changes, and up to which of them the server has heard."""

    def __init__(self) -> None:
        self.changes = 0
        self._heard = 0
        self._moved = asyncio.Event()

    def change(self) -> None:
        self.changes += 1
        self._moved.set()

    def heard(self, changes: int) -> None:
        """Of all that had changed when what it heard was said."""
        self._heard = max(self._heard, changes)
        self._moved.set()

    @property
    def is_known(self) -> bool:
        return self._heard >= self.changes

    async def until_stale(self) -> None:
        """Returns when there is something that the server has not heard."""
        while self.is_known:
            await self._next()

    async def until_known(self) -> None:
        """Returns when the server has heard of all that has changed by now."""
        last = self.changes
        while self._heard < last:
            await self._next()

    async def _next(self) -> None:
        self._moved.clear()
        await self._moved.wait()
