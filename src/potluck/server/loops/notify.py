"""Empties the outbox: soon after something was written, and every second in any case.

Whoever waits for a result is woken by what made it; here others are told, of as much at once as
comes within a moment.
"""

import asyncio

from potluck.server import topics
from potluck.server.flow.notify import BATCH, notify_once
from potluck.server.parts import Parts

_GATHER_SECONDS = 0.01


class NotifyLoop:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._told: list[int] = []  # what is still to be marked as delivered

    async def run_once(self) -> None:
        async with self._parts.live.listen(topics.OUTBOX) as listener:
            await self._notify()
            while len(self._told) == BATCH:
                await self._notify()
            await listener.wait(self._parts.settings.notify_poll_seconds)
        await asyncio.sleep(_GATHER_SECONDS)

    async def _notify(self) -> None:
        self._told = await notify_once(self._parts, self._told)
