"""Announces events from the outbox: soon after they are written, and every second.

Clients that wait for a result are woken directly by its writer; this wakes all other followers, in
batches.
"""

import asyncio

from potluck.server import topics
from potluck.server.flow.notify.notify import BATCH, notify_once, resume_outbox
from potluck.server.services import Services

_GATHER_SECONDS = 0.01


class OutboxLoop:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._announced: int | None = (
            None  # place of the last event; None: known only to the earlier leader
        )

    async def run_once(self) -> None:
        async with self._services.live.listen(topics.OUTBOX) as listener:
            while await self._notify() == BATCH:
                pass
            await listener.wait(self._services.settings.notify_poll_seconds)
        await asyncio.sleep(_GATHER_SECONDS)

    async def _notify(self) -> int:
        if self._announced is None:
            batch = await resume_outbox(self._services)
        else:
            batch = await notify_once(self._services, self._announced)
        self._announced = batch.place
        return batch.count
