"""Deliver: sends events to the webhooks that subscribe to them, in order per task, until they
arrive.

At least once: a delivery without a stored result is sent again, with the same event id. A later
event of a task waits until the earlier one was accepted or given up; other events continue
meanwhile. No transaction waits for the network, and the caller supplies `now`.
"""

import random
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import structlog
from msgspec import Struct

from potluck.decide.delivery_policy import (
    DeliveryDone,
    DeliveryRules,
    DeliveryTry,
    GivenUp,
    Paused,
    RetryLater,
    Verdict,
    decide_delivery,
)
from potluck.local.network.name_lookup import Busy
from potluck.model.backoff import BackOff
from potluck.model.error import DestinationRefused, Unopenable
from potluck.model.event import EventKind
from potluck.model.ids import AccountId
from potluck.model.webhook import DeliveryState, PauseReason
from potluck.server import topics
from potluck.server.egress.types import EgressResponse, Unreachable
from potluck.server.flow.notify.notify import record_events
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.events import deliveries, webhooks
from potluck.store.events.deliveries import Claimed, DeliverySlots, Receiver
from potluck.store.events.outbox import Event
from potluck.store.events.webhooks import WebhookTarget
from potluck.wire import codec
from potluck.wire.events import EventView
from potluck.wire.signing.webhook_signature import headers, key_of
from potluck.wire.webhooks import TryView

log = structlog.get_logger()

# Queued deliveries per webhook; later events stay in the event list.
WAITING = 200
_WEBHOOKS_AT_ONCE = 50
# How much longer than a try a claim lasts, so that a slow try is not sent twice.
_SPARE_SECONDS = 10.0
_BUSY_PAUSE = timedelta(seconds=2)


class SendResult(Struct, frozen=True):
    """The result of one try."""

    seconds: float
    status: int | None = None
    detail: str = ""
    answer: bytes = b""
    asked_seconds: float = 0.0


async def queue_once(services: Services, now: datetime) -> int:
    """Creates deliveries for new events; returns the number of events read."""
    queued = 0
    async with services.database.transaction() as connection:
        for webhook in await deliveries.lock_lagging(connection, WAITING // 2, _WEBHOOKS_AT_ONCE):
            queued += await deliveries.queue_events(connection, webhook, WAITING // 2, now)
    return queued


async def claim_once(
    services: Services, now: datetime, sending: Mapping[AccountId, int]
) -> Sequence[Claimed]:
    """Claims due deliveries for this instance, within the limits per account and webhook."""
    settings = services.settings
    free = settings.webhook_concurrency - sum(sending.values())
    if free <= 0:
        return ()
    per_webhook, per_account = (
        settings.webhook_concurrency_each,
        settings.webhook_concurrency_account,
    )
    duration = timedelta(seconds=settings.webhook_seconds + _SPARE_SECONDS)
    async with services.database.statement() as connection:
        return await deliveries.claim(
            connection, now, duration, DeliverySlots(free, per_webhook, per_account, sending)
        )


async def deliver(services: Services, claimed: Claimed, now: datetime) -> None:
    """Sends the delivery, and stores the result."""
    try:
        sent = await _send(services, claimed, now)
    except Busy:
        async with services.database.statement() as connection:
            await deliveries.put_back(connection, claimed, now + _BUSY_PAUSE)
        return
    then = now + timedelta(seconds=sent.seconds)
    number, detail = claimed.number, sent.detail
    async with services.database.transaction() as connection:
        receiver = await deliveries.lock_receiver(connection, claimed)
        if receiver is None:  # its claim expired, or its owner removed or resumed it
            return
        attempt = TryView(number, now, round(sent.seconds, 3), sent.status, detail)
        await deliveries.record_try(connection, claimed, attempt)
        has_event = await _conclude(services, connection, claimed, receiver, sent, then)
    await services.live.wake(topics.WEBHOOKS)
    if has_event:
        await services.live.wake(topics.OUTBOX)


async def send_event(
    services: Services,
    account_id: AccountId,
    destination: WebhookTarget,
    old_secret_until: datetime | None,
    event: EventView,
    now: datetime,
) -> SendResult:
    """One try, regardless of the outcome. Raises Busy if nothing was sent."""
    body = codec.encode_json(event)
    keys = [key_of(secret) for secret in _signing(destination, old_secret_until, now)]
    signed = headers([key for key in keys if key is not None], event.id, int(now.timestamp()), body)
    began = time.monotonic()
    try:
        response = await services.outward.send(destination.url, signed, body, account_id)
    except DestinationRefused as error:
        return SendResult(time.monotonic() - began, detail=f"{error.detail} {error.hint}".strip())
    except Unreachable as error:
        return SendResult(time.monotonic() - began, detail=error.detail)
    return SendResult(
        response.seconds,
        response.status,
        _complaint(response),
        response.body_start,
        response.retry_after_seconds,
    )


def _signing(
    destination: WebhookTarget, old_secret_until: datetime | None, now: datetime
) -> tuple[str, ...]:
    is_both = old_secret_until is not None and now < old_secret_until
    return destination.secrets if is_both else destination.secrets[:1]


def _complaint(response: EgressResponse) -> str:
    if response.is_success:
        return ""
    if 300 <= response.status < 400:
        return f"It answered {response.status}. Redirects are not followed: use the final address."
    return f"It answered {response.status}."


async def _send(services: Services, claimed: Claimed, now: datetime) -> SendResult:
    try:
        destination = webhooks.open_target(
            services.vault, claimed.webhook_id, claimed.sealed_destination
        )
    except Unopenable as error:
        log.error("webhook could not be decrypted", webhook=claimed.webhook_id, detail=error.detail)
        return SendResult(0.0, detail="The server cannot decrypt its address. Tell the operator.")
    until = claimed.old_secret_until
    try:
        return await send_event(
            services, claimed.account_id, destination, until, claimed.event, now
        )
    except Busy:
        raise
    except Exception:  # a bug on our side: it counts, so that retries end
        log.exception("sending failed", delivery=claimed.id)
        return SendResult(0.0, detail="The server could not send it. Tell the operator.")


async def _conclude(
    services: Services,
    connection: Connection,
    claimed: Claimed,
    receiver: Receiver,
    sent: SendResult,
    now: datetime,
) -> bool:
    """Stores the verdict; returns whether an event was recorded."""
    attempt = DeliveryTry(
        claimed.number,
        claimed.first_at,
        receiver.failures,
        receiver.failing_since,
        receiver.succeeded_at,
        sent.status,
        sent.asked_seconds,
    )
    verdict = decide_delivery(attempt, _rules(services), now, random.random())
    services.metrics.count_delivery(_OUTCOMES[type(verdict)])
    match verdict:
        case DeliveryDone():
            if await deliveries.finish(connection, claimed, DeliveryState.DELIVERED, now):
                await webhooks.record_success(connection, claimed.webhook_id, now)
        case RetryLater(next_at, others_at):
            if await deliveries.schedule_retry(connection, claimed, next_at):
                await webhooks.record_failure(connection, claimed.webhook_id, now, others_at)
        case GivenUp(others_at):
            if await deliveries.finish(connection, claimed, DeliveryState.GIVEN_UP, now):
                await webhooks.record_failure(connection, claimed.webhook_id, now, others_at)
                await webhooks.record_given_up(connection, claimed.webhook_id)
        case Paused(reason):
            if await deliveries.schedule_retry(connection, claimed, now):
                await webhooks.record_failure(connection, claimed.webhook_id, now, now)
                return await _pause(connection, claimed, receiver, sent, reason, now)
    return False


_OUTCOMES: dict[type[Verdict], str] = {
    DeliveryDone: "delivered",
    RetryLater: "retried",
    GivenUp: "given_up",
    Paused: "paused",
}


def _rules(services: Services) -> DeliveryRules:
    settings = services.settings
    return DeliveryRules(
        BackOff(settings.webhook_retry_first_seconds, settings.webhook_retry_longest_seconds),
        timedelta(seconds=settings.webhook_give_up_seconds),
    )


async def _pause(
    connection: Connection,
    claimed: Claimed,
    receiver: Receiver,
    sent: SendResult,
    reason: PauseReason,
    now: datetime,
) -> bool:
    """Records the event once, regardless of the number of failing tries."""
    if not await webhooks.pause(connection, claimed.webhook_id, now, reason, sent.detail):
        return False
    data = {
        "webhook_id": claimed.webhook_id,
        "name": receiver.name,
        "reason": reason,
        "detail": sent.detail,
    }
    await record_events(connection, Event(receiver.account_id, EventKind.WEBHOOK_PAUSED, data=data))
    return True
