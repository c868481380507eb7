"""Deliver: events go to the webhooks that want them, in order of a task, until they have arrived.

At least once: what was sent and not noted is sent again, with the same event id. A later event of a
task is sent when the earlier one was taken or given up; the events of others go on meanwhile.
Nobody waits for the network inside of a transaction, and `now` is the caller's.
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
    judge,
)
from potluck.model.backoff import BackOff
from potluck.model.error import DestinationRefused, Unopenable
from potluck.model.event import EventKind
from potluck.model.ids import AccountId
from potluck.model.webhook import DeliveryState, PauseReason
from potluck.server import topics
from potluck.server.egress.types import Busy, EgressResponse, Unreachable
from potluck.server.flow.notify.notify import record_events
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.events import deliveries, webhooks
from potluck.store.events.deliveries import Claimed, Places, Receiver
from potluck.store.events.outbox import Event
from potluck.store.events.webhooks import WebhookTarget
from potluck.wire import codec
from potluck.wire.events import EventView
from potluck.wire.signing.webhook_signature import headers, key_of
from potluck.wire.webhooks import TryView

log = structlog.get_logger()

# Deliveries of one webhook that wait at a time; the events behind them wait in their list.
WAITING = 200
_WEBHOOKS_AT_ONCE = 50
# How much longer than a try a claim lasts, so that no slow moment makes two of it.
_SPARE_SECONDS = 10.0
_BUSY_PAUSE = timedelta(seconds=2)


class SendResult(Struct, frozen=True):
    """What came of a try."""

    seconds: float
    status: int | None = None
    detail: str = ""
    answer: bytes = b""
    asked_seconds: float = 0.0


async def queue_once(services: Services, now: datetime) -> int:
    """Makes deliveries of what is new; how many events were looked at."""
    seen = 0
    async with services.database.transaction() as connection:
        for webhook in await deliveries.behind(connection, WAITING // 2, _WEBHOOKS_AT_ONCE):
            seen += await deliveries.queue(connection, webhook, WAITING // 2, now)
    return seen


async def claim_once(
    services: Services, now: datetime, sending: Mapping[AccountId, int]
) -> Sequence[Claimed]:
    """Deliveries whose turn it is, for this instance to send; it sends so many for each account."""
    settings = services.settings
    free = settings.webhook_concurrency - sum(sending.values())
    if free <= 0:
        return ()
    each, of_account = settings.webhook_concurrency_each, settings.webhook_concurrency_account
    lasting = timedelta(seconds=settings.webhook_seconds + _SPARE_SECONDS)
    async with services.database.statement() as connection:
        return await deliveries.claim(
            connection, now, lasting, Places(free, each, of_account, sending)
        )


async def deliver(services: Services, claimed: Claimed, now: datetime) -> None:
    """Sends it, and writes down what came of it."""
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
        if receiver is None:  # its claim was over, or its owner removed or resumed it
            return
        tried = TryView(number, now, round(sent.seconds, 3), sent.status, detail)
        await deliveries.note(connection, claimed, tried)
        is_told = await _conclude(services, connection, claimed, receiver, sent, then)
    await services.live.wake(topics.WEBHOOKS)
    if is_told:
        await services.live.wake(topics.OUTBOX)


async def send_event(
    services: Services,
    account_id: AccountId,
    destination: WebhookTarget,
    old_secret_until: datetime | None,
    event: EventView,
    now: datetime,
) -> SendResult:
    """One try, whatever comes of it. Raises Busy if nothing was tried."""
    body = codec.encode_json(event)
    keys = [key_of(secret) for secret in _signing(destination, old_secret_until, now)]
    signed = headers([key for key in keys if key is not None], event.id, int(now.timestamp()), body)
    began = time.monotonic()
    try:
        answered = await services.outward.send(destination.url, signed, body, account_id)
    except DestinationRefused as error:
        return SendResult(time.monotonic() - began, detail=f"{error.detail} {error.hint}".strip())
    except Unreachable as error:
        return SendResult(time.monotonic() - began, detail=error.detail)
    return SendResult(
        answered.seconds,
        answered.status,
        _complaint(answered),
        answered.body_start,
        answered.retry_after_seconds,
    )


def _signing(
    destination: WebhookTarget, old_secret_until: datetime | None, now: datetime
) -> tuple[str, ...]:
    is_both = old_secret_until is not None and now < old_secret_until
    return destination.secrets if is_both else destination.secrets[:1]


def _complaint(answered: EgressResponse) -> str:
    if answered.is_success:
        return ""
    if 300 <= answered.status < 400:
        return f"It answered {answered.status}. Nobody follows it elsewhere: name that address."
    return f"It answered {answered.status}."


async def _send(services: Services, claimed: Claimed, now: datetime) -> SendResult:
    try:
        destination = webhooks.opened(
            services.vault, claimed.webhook_id, claimed.sealed_destination
        )
    except Unopenable as error:
        log.error("webhook not opened", webhook=claimed.webhook_id, detail=error.detail)
        return SendResult(0.0, detail="The server can not open its address. Tell the operator.")
    until = claimed.old_secret_until
    try:
        return await send_event(
            services, claimed.account_id, destination, until, claimed.event, now
        )
    except Busy:
        raise
    except Exception:  # a fault of ours: it counts, so that nothing is tried without an end
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
    """Whether there is something to tell the account."""
    tried = DeliveryTry(
        claimed.number,
        claimed.first_at,
        receiver.failures,
        receiver.failing_since,
        receiver.succeeded_at,
        sent.status,
        sent.asked_seconds,
    )
    match judge(tried, _rules(services), now, random.random()):
        case DeliveryDone():
            if await deliveries.finish(connection, claimed, DeliveryState.DELIVERED, now):
                await webhooks.note_success(connection, claimed.webhook_id, now)
        case RetryLater(next_at, others_at):
            if await deliveries.try_later(connection, claimed, next_at):
                await webhooks.note_failure(connection, claimed.webhook_id, now, others_at)
        case GivenUp(others_at):
            if await deliveries.finish(connection, claimed, DeliveryState.GIVEN_UP, now):
                await webhooks.note_failure(connection, claimed.webhook_id, now, others_at)
                await webhooks.note_given_up(connection, claimed.webhook_id)
        case Paused(reason):
            if await deliveries.try_later(connection, claimed, now):
                await webhooks.note_failure(connection, claimed.webhook_id, now, now)
                return await _pause(connection, claimed, receiver, sent, reason, now)
    return False


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
    """Said once, however many tries come to the same end."""
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
