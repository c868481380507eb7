"""Empties the outbox: soon after something was written, and every second in any case.

Whoever waits for a result is woken by what made it; here others are told, of as much at once as
comes within a moment.
"""

import asyncio

from potluck.server import topics
from potluck.server.flow.notify.notify import BATCH, notify_once, resume_outbox
from potluck.server.services import Services

_GATHER_SECONDS = 0.01


class NotifyLoop:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._told: int | None = None  # up to where everybody was; none: whoever led before knows

    async def run_once(self) -> None:
        async with self._services.live.listen(topics.OUTBOX) as listener:
            while await self._notify() == BATCH:
                pass
            await listener.wait(self._services.settings.notify_poll_seconds)
        await asyncio.sleep(_GATHER_SECONDS)

    async def _notify(self) -> int:
        if self._told is None:
            done = await resume_outbox(self._services)
        else:
            done = await notify_once(self._services, self._told)
        self._told = done.place
        return done.count
