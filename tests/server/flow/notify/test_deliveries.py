"""Events reach webhooks: in order of a task, again and again, and with one effect for each."""

import asyncio
import random
import time
from datetime import timedelta

import pytest
from msgspec.structs import replace

from potluck.model.event import EventKind
from potluck.model.webhook import DeliveryState, PauseReason
from potluck.server.flow.notify import event_stream, webhook_delivery, webhooks
from potluck.server.loops.webhook_delivery import WebhookDeliveryLoop
from potluck.store.events.event_list import EventFilter
from potluck.webhook import ReceivedEvent
from potluck.wire.webhooks import NewWebhook
from tests.server.flow.notify.delivery_fixtures import Delivering
from tests.server.flow.notify.receiver import Receiver, receiving
from tests.server.flow.pool import Pool

RUNNING = EventKind.TASK_RUNNING


def numbers(events: list[ReceivedEvent], task_id: str | None = None) -> list[int]:
    return [event.data["number"] for event in events if task_id in (None, event.task_id)]


async def listed(delivering: Delivering, webhook_id: str) -> list[str]:
    page = await webhooks.deliveries_of(
        delivering.pool.services, delivering.pool.alice, webhook_id, None, 100
    )
    return [delivery.state.value for delivery in page.deliveries]


@pytest.mark.every_postgres
async def test_a_receiver_that_is_down_for_an_hour_gets_all_in_order_once_it_is_back(
    delivering: Delivering, receiver: Receiver
) -> None:
    pool, began_at, rolls = delivering.pool, time.monotonic(), random.Random(7)
    tasks = [(await pool.submit()).id for _ in range(5)]
    created = await delivering.make(receiver.url, RUNNING)
    await receiver.close()
    expected_numbers: dict[str, list[int]] = {task_id: [] for task_id in tasks}
    for number in range(40):  # it goes on happening while nobody listens
        task_id = rolls.choice(tasks)
        expected_numbers[task_id].append(number)
        await delivering.happen(task_id, number)
        await delivering.pass_by(seconds=90)
    assert receiver.requests == []
    assert (await delivering.show(created.webhook.id)).failing_since is not None
    assert 8 < delivering.tries < 60, "it is asked now and then, and not for each event"
    await receiver.open()
    # The first that it takes, it takes without a word: so that one comes again.
    receiver.mood = lambda _: 204 if len(receiver.requests) > 1 else 0
    await delivering.pass_by(minutes=31)
    events = receiver.events(created.secret, delivering.now.timestamp())
    assert {task_id: numbers(events, task_id) for task_id in tasks} == expected_numbers
    assert len(receiver.requests) == len(receiver.effects) + 1 == 41
    assert set(await listed(delivering, created.webhook.id)) == {DeliveryState.DELIVERED}
    assert (await delivering.show(created.webhook.id)).failing_since is None
    event_page = await event_stream.page(pool.services, pool.alice, EventFilter((RUNNING,)), 0, 100)
    assert {event.id for event in events} == {event.id for event in event_page.events}
    assert time.monotonic() - began_at < 60, "nobody has waited for that hour"


async def test_a_failing_webhook_gets_one_event_at_a_time(
    delivering: Delivering, receiver: Receiver
) -> None:
    parts, tasks = delivering.pool.services, [(await delivering.pool.submit()).id for _ in range(9)]
    await delivering.make(receiver.url, RUNNING)
    receiver.mood = lambda _: 503
    for number, task_id in enumerate(tasks):
        await delivering.happen(task_id, number)
    await delivering.settle()
    first_count = len(receiver.requests)
    assert first_count == parts.settings.webhook_concurrency_each
    delivering.now += timedelta(hours=1)
    await delivering.settle()
    assert len(receiver.requests) == first_count + 1, "and the others wait for what comes of it"


async def test_events_of_a_task_are_delivered_in_order_and_do_not_block_others(
    delivering: Delivering, receiver: Receiver
) -> None:
    one_task, other = (await delivering.pool.submit()).id, (await delivering.pool.submit()).id
    created = await delivering.make(receiver.url, RUNNING)
    await delivering.happen(one_task, 1, 2)
    await delivering.happen(other, 3, 4)
    receiver.mood = lambda request: 500 if b'"number":1' in request.body else 200
    await delivering.pass_by(hours=20)
    events = receiver.events(created.secret, delivering.now.timestamp())
    assert numbers(events) == [3, 4], "1 is refused, and 2 is not sent before it"
    await delivering.pass_by(hours=5)
    events = receiver.events(created.secret, delivering.now.timestamp())
    assert numbers(events) == [3, 4, 2], "1 was given up after a day"
    assert sorted(await listed(delivering, created.webhook.id)) == [*["delivered"] * 3, "given_up"]
    assert (await delivering.show(created.webhook.id)).pause is None, "it takes all others"


async def test_after_a_day_of_failures_a_webhook_is_paused_and_can_be_resumed(
    delivering: Delivering, receiver: Receiver
) -> None:
    pool, task = delivering.pool, await delivering.pool.submit()
    created = await delivering.make(receiver.url, RUNNING)
    await receiver.close()
    await delivering.happen(task.id, 1, 2)
    await delivering.pass_by(hours=23)
    assert (await delivering.show(created.webhook.id)).pause is None
    await delivering.pass_by(hours=2)
    paused = (await delivering.show(created.webhook.id)).pause
    assert paused is not None and paused.reason is PauseReason.FAILING
    assert paused.detail == "It does not accept connections."
    await delivering.happen(task.id, 3)
    tries = delivering.tries
    await delivering.pass_by(hours=30)
    assert delivering.tries == tries, "nothing is sent while it is paused"
    page = await event_stream.page(
        pool.services, pool.alice, EventFilter((EventKind.WEBHOOK_PAUSED,)), 0, 9
    )
    (event,) = page.events
    assert event.data["webhook_id"] == created.webhook.id and event.data["reason"] == "failing"
    await receiver.open()
    await webhooks.resume(pool.services, pool.alice, created.webhook.id, skip_missed=False)
    await delivering.pass_by(minutes=1)
    assert numbers(receiver.events(created.secret, delivering.now.timestamp())) == [1, 2, 3]


async def test_missed_events_may_be_skipped(delivering: Delivering, receiver: Receiver) -> None:
    pool, task = delivering.pool, await delivering.pool.submit()
    created = await delivering.make(receiver.url, RUNNING)
    receiver.mood = lambda _: 503
    await delivering.happen(task.id, 1)
    await delivering.settle()
    await webhooks.pause(pool.services, pool.alice, created.webhook.id)
    await delivering.happen(task.id, 2)
    receiver.mood = lambda _: 200
    await webhooks.resume(pool.services, pool.alice, created.webhook.id, skip_missed=True)
    await delivering.happen(task.id, 3)
    await delivering.pass_by(minutes=1)
    assert numbers(receiver.events(created.secret, delivering.now.timestamp())) == [3]
    assert sorted(await listed(delivering, created.webhook.id)) == ["delivered", "given_up"]


async def test_a_receiver_that_answers_410_is_paused_immediately(
    delivering: Delivering, receiver: Receiver
) -> None:
    task = await delivering.pool.submit()
    created = await delivering.make(receiver.url, RUNNING)
    receiver.mood = lambda _: 410
    await delivering.happen(task.id, 1, 2)
    await delivering.pass_by(hours=1)
    paused = (await delivering.show(created.webhook.id)).pause
    assert paused is not None and paused.reason is PauseReason.GONE
    assert len(receiver.requests) == 1


async def test_redirects_are_not_followed_and_retry_after_is_kept(
    delivering: Delivering, receiver: Receiver
) -> None:
    task = await delivering.pool.submit()
    created = await delivering.make(receiver.url, RUNNING)
    async with receiving() as canary:
        receiver.mood = lambda _: 307
        receiver.answers = {"Location": canary.url, "Retry-After": "600"}
        await delivering.happen(task.id, 1)
        await delivering.pass_by(seconds=599)
        assert len(receiver.requests) == 1 and canary.requests == []
        receiver.mood, receiver.answers = (lambda _: 200), {}
        await delivering.pass_by(seconds=2)
        assert len(receiver.requests) == 2 and canary.requests == []
    (delivery,) = (
        await webhooks.deliveries_of(
            delivering.pool.services, delivering.pool.alice, created.webhook.id, None, 9
        )
    ).deliveries
    last, first = delivery.newest_tries
    assert (first.number, first.status, last.number, last.status) == (1, 307, 2, 200)
    assert "Redirects are not followed" in first.detail and last.detail == ""
    assert delivery.state is DeliveryState.DELIVERED and delivery.next_try_at is None


async def test_a_try_whose_sender_ended_is_made_again_and_the_old_one_changes_nothing(
    delivering: Delivering, receiver: Receiver
) -> None:
    pool, task = delivering.pool, await delivering.pool.submit()
    created = await delivering.make(receiver.url, RUNNING)
    await delivering.happen(task.id, 1, 2)
    await webhook_delivery.queue_once(pool.services, delivering.now)
    (lost_try,) = await webhook_delivery.claim_once(pool.services, delivering.now, {})
    await delivering.settle()
    assert receiver.requests == [], "it is somebody's"
    await delivering.pass_by(minutes=1)
    assert numbers(receiver.events(created.secret, delivering.now.timestamp())) == [1, 2]
    receiver.mood = lambda _: 500
    await webhook_delivery.deliver(
        pool.services, lost_try, delivering.now
    )  # it wakes up, and sends
    assert len(receiver.requests) == 3 and len(receiver.effects) == 2
    assert await listed(delivering, created.webhook.id) == ["delivered", "delivered"]
    assert (await delivering.show(created.webhook.id)).failing_since is None


async def test_both_secrets_sign_for_a_day_after_a_rotation(
    delivering: Delivering, receiver: Receiver
) -> None:
    pool, task = delivering.pool, await delivering.pool.submit()
    created = await delivering.make(receiver.url, RUNNING)
    rotated = await webhooks.rotate(pool.services, pool.alice, created.webhook.id)
    assert rotated.secret != created.secret and rotated.webhook.old_secret_until is not None
    await delivering.happen(task.id, 1)
    await delivering.settle()
    now = delivering.now.timestamp()
    assert numbers(receiver.events(created.secret, now)) == [1]
    assert numbers(receiver.events(rotated.secret, now)) == [1]
    assert len(receiver.requests[0].headers["webhook-signature"].split(" ")) == 2
    delivering.now += timedelta(days=1, minutes=1)
    await delivering.happen(task.id, 2)
    await delivering.settle()
    assert len(receiver.requests[1].headers["webhook-signature"].split(" ")) == 1


async def test_a_delivery_is_sent_again_with_the_same_id(
    delivering: Delivering, receiver: Receiver
) -> None:
    pool, task = delivering.pool, await delivering.pool.submit()
    created = await delivering.make(receiver.url, RUNNING)
    await delivering.happen(task.id, 1)
    await delivering.settle()
    page = await webhooks.deliveries_of(pool.services, pool.alice, created.webhook.id, None, 9)
    redelivery = await webhooks.redeliver(
        pool.services, pool.alice, created.webhook.id, page.deliveries[0].id
    )
    assert (
        redelivery.id != page.deliveries[0].id
        and redelivery.event_id == page.deliveries[0].event_id
    )
    await delivering.pass_by(minutes=1)
    assert len(receiver.requests) == 2 and len(receiver.effects) == 1


async def test_only_subscribed_events_of_the_account_are_sent(
    delivering: Delivering, receiver: Receiver
) -> None:
    pool = delivering.pool
    task = await pool.submit()
    created = await delivering.make(receiver.url)
    finished_only = await delivering.make(receiver.url, EventKind.TASK_FINISHED)
    new_webhook = NewWebhook(receiver.url, task_id=(await pool.submit()).id)
    task_webhook = await webhooks.create(pool.services, pool.alice, new_webhook)
    await pool.offer()  # Bob's node is Bob's matter
    await delivering.happen(task.id, 1)
    await delivering.settle()
    sent = await listed(delivering, created.webhook.id)
    assert sent == ["delivered"] * 3, "of two tasks"
    assert await listed(delivering, task_webhook.webhook.id) == ["delivered"], "of one"
    assert await listed(delivering, finished_only.webhook.id) == []
    await pool.sql("UPDATE accounts SET suspended_at = now() WHERE id = $1", pool.alice)
    await delivering.happen(task.id, 2)
    await delivering.settle()
    assert len(receiver.requests) == 4, "nothing is sent for who is suspended"


async def test_a_long_backlog_goes_in_pieces(delivering: Delivering, receiver: Receiver) -> None:
    task = await delivering.pool.submit()
    created = await delivering.make(receiver.url, RUNNING)
    await receiver.close()
    await delivering.happen(None, *range(webhook_delivery.WAITING * 2))
    await delivering.settle()
    waiting = (await delivering.show(created.webhook.id)).waiting
    assert 0 < waiting <= webhook_delivery.WAITING
    await receiver.open()
    await delivering.happen(task.id, 1_000)
    await delivering.pass_by(hours=1)
    sent_numbers = numbers(receiver.events(created.secret, delivering.now.timestamp()))
    assert sorted(sent_numbers) == [*range(webhook_delivery.WAITING * 2), 1_000]


async def test_one_slow_receiver_does_not_delay_the_others(pool: Pool, receiver: Receiver) -> None:
    """By the loop itself, and the real clock: two places in all, and one for each."""
    settings = replace(pool.services.settings, webhook_concurrency=2, webhook_concurrency_each=1)
    quick = replace(pool.services, settings=settings)
    delivering = await Delivering.begin(pool)
    tasks = [(await pool.submit()).id for _ in range(3)]
    async with receiving() as slow:
        slow.held = asyncio.Event()
        await delivering.make(slow.url, RUNNING)
        await delivering.make(receiver.url, RUNNING)
        loop = asyncio.create_task(WebhookDeliveryLoop(quick).run_once())
        try:
            for number in range(9):
                await delivering.happen(tasks[number % 3], number)
            async with asyncio.timeout(20):
                while len(receiver.effects) < 9 or not slow.requests:
                    await asyncio.sleep(0.01)
            assert len(slow.requests) == 1 and slow.effects == {}
        finally:
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)
