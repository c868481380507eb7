"""Announces events from the outbox: soon after they are written, and every second.

Clients that wait for a result are woken directly by its writer; this wakes all other followers, in
batches. Up to where events are announced is written once a second at most.
"""

import asyncio

from potluck.server import topics
from potluck.server.flow.notify.notify import OutboxBatch, notify_once, record_announced
from potluck.server.services import Services

_GATHER_SECONDS = 0.01
_RECORD_SECONDS = 1.0


class OutboxLoop:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._announced = 0  # place of the last event; at first what the earlier leader stored
        self._recorded, self._recorded_at = 0, -_RECORD_SECONDS

    async def run_once(self) -> None:
        async with self._services.live.listen(topics.OUTBOX) as listener:
            # Events may have to wait until a transaction ends, which wakes nothing.
            pause = _GATHER_SECONDS
            while (batch := await self._notify()).has_more:
                await asyncio.sleep(0.0 if batch.count else pause)
                pause = min(2 * pause, self._services.settings.notify_poll_seconds)
            await self._record()
            await listener.wait(self._services.settings.notify_poll_seconds)
        await asyncio.sleep(_GATHER_SECONDS)

    async def _notify(self) -> OutboxBatch:
        batch = await notify_once(self._services, self._announced)
        self._announced = batch.place
        return batch

    async def _record(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._announced != self._recorded and now >= self._recorded_at + _RECORD_SECONDS:
            await record_announced(self._services, self._announced)
            self._recorded, self._recorded_at = self._announced, now
