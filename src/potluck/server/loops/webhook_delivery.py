"""Sends events to webhooks: at once when something happened, and looks every second in any case.

So many at a time, of one account a part of them, and of one webhook a few: a receiver that is slow
holds a few places until its time is over, and one that fails holds one. What is being sent when
this ends is sent again by the next.
"""

import asyncio
from collections import Counter

import structlog

from potluck.model.ids import AccountId
from potluck.server import topics
from potluck.server.flow.notify.webhook_delivery import claim_once, deliver, queue_once
from potluck.server.services import Services
from potluck.store.events import deliveries
from potluck.store.events.deliveries import Claimed

log = structlog.get_logger()


class WebhookDeliveryLoop:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._sending: dict[asyncio.Task[None], AccountId] = {}

    async def run_once(self) -> None:
        """Until something fails: then nothing of it is still under way."""
        try:
            while True:
                await self._round()
        finally:
            sending, self._sending = self._sending, {}
            for each in sending:
                each.cancel()
            await asyncio.gather(*sending, return_exceptions=True)

    async def _round(self) -> None:
        services = self._services
        async with services.live.listen(topics.WEBHOOKS) as listener:
            async with services.database.statement() as connection:
                is_any = await deliveries.is_any(connection)
            if not (is_any and await self._look()):
                await listener.wait(services.settings.webhook_poll_seconds)

    async def _look(self) -> bool:
        """Whether there was something to do, so that there may be more."""
        services = self._services
        async with services.database.statement() as connection:
            now = await deliveries.moment(connection)
        is_more = await queue_once(services, now) > 0
        claimed = await claim_once(services, now, Counter(self._sending.values()))
        for each in claimed:
            self._begin(each)
        return is_more or bool(claimed)

    def _begin(self, claimed: Claimed) -> None:
        sending = asyncio.create_task(self._deliver(claimed))
        self._sending[sending] = claimed.account_id
        sending.add_done_callback(lambda ended: self._sending.pop(ended, None))

    async def _deliver(self, claimed: Claimed) -> None:
        """What fails here keeps its claim until that is over, and is then tried again."""
        try:
            async with self._services.database.statement() as connection:
                now = await deliveries.moment(connection)
            await deliver(self._services, claimed, now)
        except Exception:
            log.exception("delivering failed", delivery=claimed.id)
