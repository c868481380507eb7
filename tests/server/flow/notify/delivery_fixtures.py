"""The deliverer on a clock of the test's own: it jumps from one moment at which something is due to
the next, and nobody sleeps.
"""

import asyncio
from datetime import datetime, timedelta

from potluck.model.event import EventKind
from potluck.model.ids import TaskId
from potluck.server.flow.notify import notify, webhook_delivery, webhooks
from potluck.store.events import deliveries
from potluck.store.events.outbox import Event
from potluck.wire.webhooks import NewWebhook, WebhookMade, WebhookView
from tests.server.flow.pool import Pool

_DUE = """
SELECT min(greatest(deliveries.next_at, webhooks.next_at, deliveries.claimed_until))
FROM deliveries JOIN webhooks ON webhooks.id = webhook_id
WHERE state = 'pending' AND paused_at IS NULL
    AND greatest(deliveries.next_at, webhooks.next_at, deliveries.claimed_until) > $1
"""


class Delivering:
    def __init__(self, pool: Pool, now: datetime) -> None:
        self.pool = pool
        self.now = now
        self.tries = 0

    @classmethod
    async def begin(cls, pool: Pool) -> "Delivering":
        async with pool.services.database.transaction() as connection:
            # Ahead of the database's clock, which is the one that webhooks are made by.
            return cls(pool, await deliveries.read_clock(connection) + timedelta(minutes=1))

    async def make(self, url: str, *kinds: EventKind) -> WebhookMade:
        return await webhooks.create(
            self.pool.services, self.pool.alice, NewWebhook(url, kinds=kinds)
        )

    async def show(self, webhook_id: str) -> WebhookView:
        return await webhooks.show(self.pool.services, self.pool.alice, webhook_id)

    async def happen(self, task_id: TaskId | None, *numbers: int) -> None:
        async with self.pool.services.database.transaction() as connection:
            events = [
                Event(self.pool.alice, EventKind.TASK_RUNNING, task_id, data={"number": number})
                for number in numbers
            ]
            await notify.record_events(connection, *events)
        await notify.notify_once(self.pool.services, 0)

    async def settle(self) -> None:
        """All that is due at this moment."""
        parts = self.pool.services
        while True:
            queued_count = await webhook_delivery.queue_once(parts, self.now)
            claimed = await webhook_delivery.claim_once(parts, self.now, {})
            self.tries += len(claimed)
            await asyncio.gather(
                *(webhook_delivery.deliver(parts, delivery, self.now) for delivery in claimed)
            )
            if not (queued_count or claimed):
                return

    async def pass_by(self, **duration: float) -> None:
        """Time goes by, and whatever becomes due is done then."""
        end = self.now + timedelta(**duration)
        while True:
            await self.settle()
            due = await self.pool.sql(_DUE, self.now)
            if due is None or due > end:
                break
            # What was sent took a little real time; a moment later it is due for certain.
            self.now = due + timedelta(milliseconds=1)
        self.now = max(self.now, end)
        await self.settle()
