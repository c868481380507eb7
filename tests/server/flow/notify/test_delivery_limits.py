"""Nobody gets more of the sender than is theirs, and nobody's try undoes what another has done."""

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from potluck.local.network.name_lookup import Busy
from potluck.model.error import QuotaExceeded
from potluck.model.event import EventKind
from potluck.model.webhook import PauseReason
from potluck.server import topics
from potluck.server.flow.notify import event_stream, notify, webhook_delivery, webhooks
from potluck.server.loops.webhook_delivery import WebhookDeliveryLoop
from potluck.store.events.event_list import EventFilter
from potluck.store.events.outbox import Event
from potluck.wire.webhooks import ChangeWebhook, DeliveryView, NewWebhook
from tests.server.flow.notify.delivery_fixtures import Delivering
from tests.server.flow.notify.receiver import Receiver, receiving
from tests.server.flow.pool import Pool

RUNNING = EventKind.TASK_RUNNING


async def log_of(delivering: Delivering, webhook_id: str) -> list[DeliveryView]:
    pool = delivering.pool
    page = await webhooks.deliveries_of(pool.services, pool.alice, webhook_id, None, 500)
    return page.deliveries


async def resume(delivering: Delivering, webhook_id: str, *, skip: bool = False) -> None:
    pool = delivering.pool
    await webhooks.resume(pool.services, pool.alice, webhook_id, skip_missed=skip)


@pytest.mark.parametrize("skip", [False, True])
async def test_resuming_again_and_again_gives_no_more_places(
    delivering: Delivering, receiver: Receiver, skip: bool
) -> None:
    pool, most_at_once = delivering.pool, delivering.pool.services.settings.webhook_concurrency_each
    created = await delivering.make(receiver.url, RUNNING)
    claimed = 0
    for number in range(5):
        await delivering.happen(None, *range(number * 10, number * 10 + 10))
        await webhook_delivery.queue_once(pool.services, delivering.now)
        claimed += len(await webhook_delivery.claim_once(pool.services, delivering.now, {}))
        await resume(delivering, created.webhook.id, skip=skip)
    assert claimed == most_at_once


async def test_a_try_in_flight_does_not_undo_its_owners_resume(
    delivering: Delivering, receiver: Receiver
) -> None:
    pool, task = delivering.pool, await delivering.pool.submit()
    created = await delivering.make(receiver.url, RUNNING)
    await delivering.happen(task.id, 1)
    await webhook_delivery.queue_once(pool.services, delivering.now)
    (flying,) = await webhook_delivery.claim_once(pool.services, delivering.now, {})
    await resume(delivering, created.webhook.id)
    receiver.mood = lambda _: 410
    await webhook_delivery.deliver(pool.services, flying, delivering.now)
    assert (await delivering.show(created.webhook.id)).pause is None
    receiver.mood = lambda _: 200
    await delivering.pass_by(minutes=1)
    assert [delivery.state.value for delivery in await log_of(delivering, created.webhook.id)] == [
        "delivered"
    ]


async def test_one_pause_is_reported_once(delivering: Delivering, receiver: Receiver) -> None:
    pool = delivering.pool
    await delivering.make(receiver.url, RUNNING)
    receiver.mood = lambda _: 410
    await delivering.happen(None, 1, 2, 3, 4)
    await delivering.settle()
    await notify.notify_once(pool.services, 0)
    assert len(receiver.requests) == 4
    page = await event_stream.page(
        pool.services, pool.alice, EventFilter((EventKind.WEBHOOK_PAUSED,)), 0, 9
    )
    assert len(page.events) == 1


async def test_repeated_requests_make_one_redelivery(
    delivering: Delivering, receiver: Receiver
) -> None:
    pool = delivering.pool
    created = await delivering.make(receiver.url, RUNNING)
    await delivering.happen(None, 1)
    await delivering.settle()
    (first,) = await log_of(delivering, created.webhook.id)
    ids = {
        (await webhooks.redeliver(pool.services, pool.alice, created.webhook.id, first.id)).id
        for _ in range(5)
    }
    assert len(ids) == 1 and len(await log_of(delivering, created.webhook.id)) == 2
    await delivering.settle()
    assert len(receiver.requests) == 2


async def test_no_redelivery_is_added_where_too_many_wait(
    delivering: Delivering, receiver: Receiver
) -> None:
    pool = delivering.pool
    created = await delivering.make(receiver.url, RUNNING)
    await delivering.happen(None, 0)
    await delivering.settle()
    (first,) = await log_of(delivering, created.webhook.id)
    await delivering.happen(None, *range(webhook_delivery.WAITING))
    while await webhook_delivery.queue_once(pool.services, delivering.now):
        pass
    assert (await delivering.show(created.webhook.id)).waiting == webhook_delivery.WAITING
    with pytest.raises(QuotaExceeded, match="already queued for this webhook"):
        await webhooks.redeliver(pool.services, pool.alice, created.webhook.id, first.id)


async def test_a_redelivery_does_not_wait_for_the_pause_of_a_failing_one(
    delivering: Delivering, receiver: Receiver
) -> None:
    pool = delivering.pool
    created = await delivering.make(receiver.url, RUNNING)
    receiver.mood = lambda _: 503
    receiver.answers = {"Retry-After": "600"}
    await delivering.happen(None, 1)
    await delivering.settle()
    (waiting,) = await log_of(delivering, created.webhook.id)
    assert waiting.next_try_at is not None and waiting.next_try_at > delivering.now
    receiver.mood = lambda _: 200
    await webhooks.redeliver(pool.services, pool.alice, created.webhook.id, waiting.id)
    await delivering.settle()
    assert len(receiver.effects) == 1
    await webhooks.pause(pool.services, pool.alice, created.webhook.id)
    redelivery = await webhooks.redeliver(pool.services, pool.alice, created.webhook.id, waiting.id)
    assert redelivery.state == "pending" and redelivery.next_try_at is None, (
        "it waits until it is resumed"
    )


async def test_at_another_address_nothing_has_failed_yet(
    delivering: Delivering, receiver: Receiver
) -> None:
    pool = delivering.pool
    created = await delivering.make("http://127.0.0.1:9/", RUNNING)
    await delivering.happen(None, 1, 2, 3)
    await delivering.settle()
    assert (await delivering.show(created.webhook.id)).failing_since is not None
    changed = ChangeWebhook(url=receiver.url)
    changed_webhook = await webhooks.change(pool.services, pool.alice, created.webhook.id, changed)
    assert changed_webhook.failing_since is None and changed_webhook.next_try_at is None
    await delivering.settle()
    assert len(receiver.effects) == 3


async def test_many_lanes_do_not_make_the_day_longer(delivering: Delivering) -> None:
    created = await delivering.make("http://127.0.0.1:9/", RUNNING)
    await delivering.happen(None, *range(150))
    await delivering.pass_by(hours=23)
    assert (await delivering.show(created.webhook.id)).pause is None
    await delivering.pass_by(hours=1, minutes=1)
    paused = (await delivering.show(created.webhook.id)).pause
    assert paused is not None and paused.reason is PauseReason.FAILING


async def test_a_failure_long_after_an_abandoned_delivery_counts_as_the_first(
    delivering: Delivering, receiver: Receiver
) -> None:
    created = await delivering.make(receiver.url, RUNNING)
    receiver.mood = lambda request: 500 if b'"number":1}' in request.body else 200
    await delivering.happen(None, 1)
    await delivering.happen(None, 2)
    await delivering.pass_by(days=3)
    receiver.mood = lambda _: 503
    await delivering.happen(None, 3)
    await delivering.settle()
    webhook = await delivering.show(created.webhook.id)
    assert webhook.pause is None and webhook.failing_since is not None


async def test_the_limit_of_webhooks_holds_for_those_made_at_once(pool: Pool) -> None:
    async def make(number: int) -> Any:
        new_webhook = NewWebhook("http://127.0.0.1:9/", name=f"hook {number}")
        return await webhooks.create(pool.services, pool.alice, new_webhook)

    outcomes = await asyncio.gather(*(make(n) for n in range(30)), return_exceptions=True)
    refusals = [outcome for outcome in outcomes if isinstance(outcome, QuotaExceeded)]
    limit = pool.services.settings.webhooks_per_account
    assert len(outcomes) - len(refusals) == limit
    assert await pool.sql("SELECT count(*) FROM webhooks") == limit


async def test_ten_slow_webhooks_of_one_account_do_not_delay_another(
    pool: Pool, receiver: Receiver
) -> None:
    """By the loop itself, and the real clock; the slow ones would fill every place."""
    settings = replace(pool.services.settings, webhook_concurrency=8, webhook_concurrency_account=6)
    parts = replace(pool.services, settings=settings)
    delivering = await Delivering.begin(pool)
    await webhooks.create(pool.services, pool.bob, NewWebhook(receiver.url, kinds=(RUNNING,)))
    async with AsyncExitStack() as stack:
        slow = [await stack.enter_async_context(receiving()) for _ in range(10)]
        for slow_receiver in slow:
            slow_receiver.held = asyncio.Event()
            await delivering.make(slow_receiver.url, RUNNING)
        await delivering.happen(None, *range(10))
        loop = asyncio.create_task(WebhookDeliveryLoop(parts).run_once())
        try:
            async with asyncio.timeout(20):
                while sum(len(receiver.requests) for receiver in slow) < 6:
                    await asyncio.sleep(0.01)
                async with pool.services.database.transaction() as connection:
                    await notify.record_events(connection, Event(pool.bob, RUNNING))
                await notify.notify_once(pool.services, 0)
                await pool.services.live.wake("webhooks")
                while not receiver.effects:
                    await asyncio.sleep(0.01)
            assert sum(len(receiver.requests) for receiver in slow) == 6, (
                "and no try of theirs was over"
            )
        finally:
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)


class Failing:
    """A sender with a fault, or without room."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def check(self, _url: str) -> str:
        return "hooks.public.org"

    async def send(self, *_: Any) -> Any:
        raise self.error


def sending_by(pool: Pool, sender: Any) -> None:
    pool.services = replace(pool.services, outward=sender)


async def test_a_busy_name_lookup_counts_against_no_webhook(
    delivering: Delivering, receiver: Receiver
) -> None:
    pool, real = delivering.pool, delivering.pool.services.outward
    created = await delivering.make(receiver.url, RUNNING)
    await delivering.happen(None, 1)
    sending_by(pool, Failing(Busy()))
    await delivering.pass_by(seconds=10)
    assert delivering.tries > 2, "it is looked at again soon"
    webhook = await delivering.show(created.webhook.id)
    (waiting,) = await log_of(delivering, created.webhook.id)
    assert webhook.failing_since is None and (waiting.tries, waiting.newest_tries) == (0, [])
    sending_by(pool, real)
    delivering.now += timedelta(seconds=5)
    await delivering.settle()
    assert len(receiver.effects) == 1


async def test_a_fault_of_the_sender_is_a_try_like_any_other(delivering: Delivering) -> None:
    created = await delivering.make("http://127.0.0.1:9/", RUNNING)
    await delivering.happen(None, 1)
    sending_by(delivering.pool, Failing(ValueError("a fault")))
    await delivering.settle()
    assert delivering.tries == 1
    assert (await delivering.show(created.webhook.id)).failing_since is not None
    (waiting,) = await log_of(delivering, created.webhook.id)
    (failed_try,) = waiting.newest_tries
    assert failed_try.detail == "The server could not send it. Tell the operator."


async def test_events_of_an_account_without_a_webhook_wake_no_delivery(
    delivering: Delivering, receiver: Receiver
) -> None:
    """So nothing is asked of the database for them; those who follow all events are woken."""
    live = delivering.pool.services.live
    task_id = (await delivering.pool.submit()).id
    async with (
        live.listen(topics.WEBHOOKS) as deliveries_due,
        live.listen(topics.EVENTS) as announced,
    ):
        await delivering.happen(task_id, 1)
        assert announced.take_wake() and not deliveries_due.take_wake()
        await delivering.make(receiver.url)
        deliveries_due.take_wake()
        await delivering.happen(task_id, 2)
        assert deliveries_due.take_wake()
