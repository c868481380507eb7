"""Webhooks: an account registers addresses for its events, and manages them.

The signing secret is shown once, when it is created. After a rotation the previous secret also
signs for a while, so that a receiver can switch over without missing anything.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta

from msgspec import UNSET
from msgspec.structs import replace

from potluck.local.network.name_lookup import Busy
from potluck.model.audit import AuditKind
from potluck.model.error import DestinationRefused, NotFound, QuotaExceeded, Unavailable
from potluck.model.event import EventKind
from potluck.model.ids import AccountId, is_id
from potluck.model.webhook import PauseReason
from potluck.server import topics
from potluck.server.auth import idempotent_secret
from potluck.server.auth.idempotent_secret import IdempotentRequest
from potluck.server.flow.notify.webhook_delivery import WAITING, send_event
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.events import deliveries, webhooks
from potluck.store.events.webhooks import Webhook, WebhookTarget
from potluck.store.identity import audit
from potluck.store.new_ids import new_event_id
from potluck.store.tasks import tasks
from potluck.wire.events import EventView
from potluck.wire.signing.webhook_signature import new_secret, secret_of
from potluck.wire.webhooks import (
    ChangeWebhook,
    DeliveryPage,
    DeliveryView,
    NewWebhook,
    WebhookMade,
    WebhookTried,
    WebhookView,
)

_SHOWN_BYTES = 2_000
_BUSY_SECONDS = 2.0


async def create(
    services: Services,
    account_id: AccountId,
    new: NewWebhook,
    request: IdempotentRequest | None = None,
) -> WebhookMade:
    """Raises DestinationRefused for an address that the server never sends to."""
    host, secret = services.outward.check(new.url), _secret_for(services, request)
    async with services.database.transaction() as connection:
        if not await idempotent_secret.is_first(connection, request):
            return WebhookMade(secret, await _made_before(services, connection, account_id, secret))
        await _check_quota(services, connection, account_id)
        if new.task_id is not None:
            await tasks.get(connection, services.vault, new.task_id, account_id)
        webhook = await webhooks.add(
            connection,
            services.vault,
            account_id,
            new.name or host[:100],
            tuple(dict.fromkeys(new.kinds)),
            new.task_id,
            WebhookTarget(new.url, (secret,)),
            await deliveries.read_clock(connection),
        )
        await _record(services, connection, AuditKind.WEBHOOK_MADE, account_id, webhook.view)
    return WebhookMade(secret, webhook.view)


def _secret_for(services: Services, request: IdempotentRequest | None) -> str:
    if request is None:
        return new_secret()
    return secret_of(idempotent_secret.secret_bytes(services, "webhook", request))


async def _made_before(
    services: Services, connection: Connection, account_id: AccountId, secret: str
) -> WebhookView:
    """Finds the webhook with this secret; an account has few."""
    for view in await webhooks.of_account(connection, services.vault, account_id):
        webhook = await webhooks.get(connection, services.vault, view.id, account_id)
        if webhook is not None and secret in webhook.destination.secrets:
            return webhook.view
    raise idempotent_secret.no_longer_valid("webhook")


async def list_page(
    services: Services, account_id: AccountId, behind: str | None, limit: int
) -> list[WebhookView]:
    async with services.database.statement() as connection:
        return await webhooks.of_account(connection, services.vault, account_id, behind, limit)


async def show(services: Services, account_id: AccountId, webhook_id: str) -> WebhookView:
    async with services.database.statement() as connection:
        return (await _get(services, connection, account_id, webhook_id)).view


async def change(
    services: Services, account_id: AccountId, webhook_id: str, request: ChangeWebhook
) -> WebhookView:
    if request.url is not UNSET:
        services.outward.check(request.url)
    async with services.database.transaction() as connection:
        webhook = await _lock(services, connection, account_id, webhook_id)
        view, destination = webhook.view, webhook.destination
        if request.url is not UNSET:
            destination = replace(destination, url=request.url)
        name = view.name if request.name is UNSET else request.name
        kinds = view.kinds if request.kinds is UNSET else list(dict.fromkeys(request.kinds))
        changed = replace(view, name=name, kinds=kinds, url=destination.url)
        await webhooks.change(connection, services.vault, Webhook(changed, destination))
        if destination.url != view.url:  # a new address has no failures yet
            await webhooks.reset_failures(
                connection, webhook_id, await deliveries.read_clock(connection)
            )
        await _record(services, connection, AuditKind.WEBHOOK_CHANGED, account_id, changed)
        return (await _get(services, connection, account_id, webhook_id)).view


async def rotate(
    services: Services,
    account_id: AccountId,
    webhook_id: str,
    request: IdempotentRequest | None = None,
) -> WebhookMade:
    """Creates a new secret; the previous one also signs during the transition period."""
    secret = _secret_for(services, request)
    duration = timedelta(seconds=services.settings.webhook_rotation_seconds)
    async with services.database.transaction() as connection:
        is_first = await idempotent_secret.is_first(connection, request)
        webhook = await _lock(services, connection, account_id, webhook_id)
        if not is_first:
            return WebhookMade(secret, _rotated_before(webhook, secret))
        until = await deliveries.read_clock(connection) + duration
        destination = replace(webhook.destination, secrets=(secret, webhook.destination.secrets[0]))
        changed = replace(webhook.view, old_secret_until=until)
        await webhooks.change(connection, services.vault, Webhook(changed, destination))
        await _record(services, connection, AuditKind.WEBHOOK_ROTATED, account_id, changed)
        return WebhookMade(secret, (await _get(services, connection, account_id, webhook_id)).view)


def _rotated_before(webhook: Webhook, secret: str) -> WebhookView:
    """Only the newest secret is returned again: an older one is no longer valid."""
    if secret != webhook.destination.secrets[0]:
        raise idempotent_secret.no_longer_valid("secret")
    return webhook.view


async def remove(services: Services, account_id: AccountId, webhook_id: str) -> None:
    async with services.database.transaction() as connection:
        webhook = await _lock(services, connection, account_id, webhook_id)
        await webhooks.remove(connection, webhook_id, account_id)
        await _record(services, connection, AuditKind.WEBHOOK_REMOVED, account_id, webhook.view)


async def pause(services: Services, account_id: AccountId, webhook_id: str) -> WebhookView:
    """Stops sending; events accumulate meanwhile. Idempotent."""
    async with services.database.transaction() as connection:
        await _lock(services, connection, account_id, webhook_id)
        now = await deliveries.read_clock(connection)
        await webhooks.pause(connection, webhook_id, now, PauseReason.OWNER, "")
        return (await _get(services, connection, account_id, webhook_id)).view


async def resume(
    services: Services, account_id: AccountId, webhook_id: str, *, skip_missed: bool
) -> WebhookView:
    async with services.database.transaction() as connection:
        await _lock(services, connection, account_id, webhook_id)
        now = await deliveries.read_clock(connection)
        await webhooks.resume(connection, webhook_id, now, skip_missed=skip_missed)
        shown = (await _get(services, connection, account_id, webhook_id)).view
    await services.live.wake(topics.WEBHOOKS)
    return shown


async def test(services: Services, account_id: AccountId, webhook_id: str) -> WebhookTried:
    """Sends a test event, once and now, even if the webhook is paused."""
    async with services.database.statement() as connection:
        webhook = await _get(services, connection, account_id, webhook_id)
        now = await deliveries.read_clock(connection)
    data = {"webhook_id": webhook_id, "name": webhook.view.name}
    event = EventView(new_event_id(), EventKind.WEBHOOK_TEST, now, data=data)
    until = webhook.view.old_secret_until
    try:
        sent = await send_event(services, account_id, webhook.destination, until, event, now)
    except Busy:
        raise Unavailable(
            "The server is busy with name lookups.", "Try again in a moment.", _BUSY_SECONDS
        ) from None
    return WebhookTried(
        event.id,
        sent.status is not None and 200 <= sent.status < 300,
        round(sent.seconds, 3),
        sent.status,
        sent.detail,
        sent.answer[:_SHOWN_BYTES].decode("utf-8", "replace"),
    )


async def deliveries_of(
    services: Services, account_id: AccountId, webhook_id: str, before: str | None, limit: int
) -> DeliveryPage:
    async with services.database.transaction() as connection:
        await _get(services, connection, account_id, webhook_id)
        rows = await deliveries.newest(connection, webhook_id, before, limit)
    return DeliveryPage(rows, rows[-1].id if len(rows) == limit else None)


async def redeliver(
    services: Services, account_id: AccountId, webhook_id: str, delivery_id: str
) -> DeliveryView:
    """Sends the same event with the same id again; a delivery that still waits is made due now."""
    async with services.database.transaction() as connection:
        await _lock(services, connection, account_id, webhook_id)
        is_valid = is_id(delivery_id, "delivery")
        if not is_valid or await deliveries.get(connection, webhook_id, delivery_id) is None:
            raise NotFound(
                f"This webhook has no delivery {delivery_id[:64]!r}.",
                "`potluck webhooks deliveries` lists them.",
            )
        now = await deliveries.read_clock(connection)
        sent_id = await deliveries.make_due(
            connection, webhook_id, delivery_id, now
        ) or await deliveries.redeliver(connection, webhook_id, delivery_id, now, WAITING)
        if sent_id is None:
            raise QuotaExceeded(
                f"{WAITING} deliveries are already queued for this webhook.",
                "Wait until some are done, or skip them: `potluck webhooks resume --skip`.",
            )
        await deliveries.make_webhook_due(connection, webhook_id, now)
        shown = await deliveries.get(connection, webhook_id, sent_id)
    await services.live.wake(topics.WEBHOOKS)
    assert shown is not None, "the row exists, and its webhook is locked"
    return shown


async def _check_quota(services: Services, connection: Connection, account_id: AccountId) -> None:
    most = services.settings.webhooks_per_account
    if await webhooks.count(connection, account_id) >= most:
        raise QuotaExceeded(
            f"An account can have at most {most} webhooks.", "Remove one, or reuse an existing one."
        )


async def _get(
    services: Services,
    connection: Connection,
    account_id: AccountId,
    webhook_id: str,
    read: Callable[..., Awaitable[Webhook | None]] = webhooks.get,
) -> Webhook:
    if is_id(webhook_id, "webhook"):
        webhook = await read(connection, services.vault, webhook_id, account_id)
        if webhook is not None:
            return webhook
    raise NotFound(f"You have no webhook {webhook_id[:64]!r}.", "`potluck webhooks` lists yours.")


async def _lock(
    services: Services, connection: Connection, account_id: AccountId, webhook_id: str
) -> Webhook:
    return await _get(services, connection, account_id, webhook_id, webhooks.lock)


async def _record(
    services: Services,
    connection: Connection,
    kind: AuditKind,
    account_id: AccountId,
    view: WebhookView,
) -> None:
    """Only the host of the address: the rest may be secret."""
    data = {"name": view.name, "host": _host(services, view.url)}
    await audit.append(connection, services.keys.audit, kind, account_id, view.id, data)


def _host(services: Services, url: str) -> str:
    try:
        return services.outward.check(url)[:100]
    except DestinationRefused:  # the operator no longer allows it
        return ""
