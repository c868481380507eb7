"""Sends events to webhooks: at once when something happened, and looks every second in any case.

So many at a time, and of one webhook a few: a receiver that is slow holds a few places until its
time is over, and one that fails holds one. What is being sent when this ends is sent again by the
next.
"""

import asyncio

import structlog

from potluck.server import topics
from potluck.server.flow.deliver import claim_once, deliver, queue_once
from potluck.server.parts import Parts
from potluck.store import deliveries
from potluck.store.deliveries import Claimed

log = structlog.get_logger()


class DeliverLoop:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._sending: set[asyncio.Task[None]] = set()

    async def run_once(self) -> None:
        """Until something fails: then nothing of it is still under way."""
        try:
            while True:
                await self._round()
        finally:
            sending, self._sending = self._sending, set()
            for each in sending:
                each.cancel()
            await asyncio.gather(*sending, return_exceptions=True)

    async def _round(self) -> None:
        parts = self._parts
        async with parts.live.listen(topics.WEBHOOKS) as listener:
            async with parts.database.statement() as connection:
                is_any = await deliveries.is_any(connection)
            if not (is_any and await self._look()):
                await listener.wait(parts.settings.webhook_poll_seconds)

    async def _look(self) -> bool:
        """Whether there was something to do, so that there may be more."""
        parts = self._parts
        async with parts.database.statement() as connection:
            now = await deliveries.moment(connection)
        is_more = await queue_once(parts, now) > 0
        room = parts.settings.webhook_concurrency - len(self._sending)
        claimed = await claim_once(parts, now, room) if room > 0 else ()
        for each in claimed:
            self._begin(each)
        return is_more or bool(claimed)

    def _begin(self, claimed: Claimed) -> None:
        sending = asyncio.create_task(self._deliver(claimed))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)

    async def _deliver(self, claimed: Claimed) -> None:
        """What fails here keeps its claim until that is over, and is then tried again."""
        try:
            async with self._parts.database.statement() as connection:
                now = await deliveries.moment(connection)
            await deliver(self._parts, claimed, now)
        except Exception:
            log.exception("delivering failed", delivery=claimed.id)
