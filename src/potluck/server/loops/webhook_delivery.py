"""Sends events to webhooks: when woken, and every second.

Concurrency is limited in total, per account and per webhook: a slow receiver occupies a few slots
until its timeout, a failing one occupies one. Deliveries in progress when this stops are sent again
by the next leader.
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
        """Runs until an error; then cancels everything in progress."""
        try:
            while True:
                await self._round()
        finally:
            sending, self._sending = self._sending, {}
            for delivery in sending:
                delivery.cancel()
            await asyncio.gather(*sending, return_exceptions=True)

    async def _round(self) -> None:
        services = self._services
        async with services.live.listen(topics.WEBHOOKS) as listener:
            async with services.database.statement() as connection:
                is_any = await deliveries.has_webhooks(connection)
            if not (is_any and await self._start_due()):
                await listener.wait(services.settings.webhook_poll_seconds)

    async def _start_due(self) -> bool:
        """Queues and claims deliveries; returns whether there may be more."""
        services = self._services
        async with services.database.statement() as connection:
            now = await deliveries.read_clock(connection)
        is_more = await queue_once(services, now) > 0
        claimed = await claim_once(services, now, Counter(self._sending.values()))
        for delivery in claimed:
            self._begin(delivery)
        return is_more or bool(claimed)

    def _begin(self, claimed: Claimed) -> None:
        sending = asyncio.create_task(self._deliver(claimed))
        self._sending[sending] = claimed.account_id
        sending.add_done_callback(lambda ended: self._sending.pop(ended, None))

    async def _deliver(self, claimed: Claimed) -> None:
        """A failure here keeps its claim until that expires, and is then retried."""
        try:
            async with self._services.database.statement() as connection:
                now = await deliveries.read_clock(connection)
            await deliver(self._services, claimed, now)
        except Exception:
            log.exception("delivery failed", delivery=claimed.id)
