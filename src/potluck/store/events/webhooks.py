"""Webhooks: the addresses at which accounts want to be told. Address and secrets are sealed."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from potluck.model.event import EventKind
from potluck.model.ids import AccountId, TaskId
from potluck.model.webhook import PauseReason
from potluck.store.database import Connection
from potluck.store.new_ids import new_webhook_id
from potluck.store.sealing.vault import Vault
from potluck.store.sql_files import load
from potluck.wire import codec
from potluck.wire.webhooks import Pause, WebhookView

_sql = load("webhooks")
DESTINATION: Final = ("webhooks", "sealed_destination")


class WebhookTarget(Struct, frozen=True):
    """Where, and signed by what; the first secret is the current one."""

    url: str
    secrets: tuple[str, ...]


class Webhook(Struct, frozen=True):
    """As it is kept."""

    view: WebhookView
    destination: WebhookTarget


async def add(
    connection: Connection,
    vault: Vault,
    account_id: AccountId,
    name: str,
    kinds: Sequence[EventKind],
    task_id: TaskId | None,
    destination: WebhookTarget,
    now: datetime,
) -> Webhook:
    webhook_id = new_webhook_id()
    sealed = _sealed(vault, webhook_id, destination)
    row = await connection.fetchrow(
        *_sql.add(
            webhook_id=webhook_id,
            account_id=account_id,
            name=name,
            kinds=list(kinds),
            task_id=task_id,
            sealed_destination=sealed,
            now=now,
        )
    )
    return _webhook(vault, row)


async def count(connection: Connection, account_id: AccountId) -> int:
    """Nobody else adds one to this account until the transaction is over."""
    await connection.execute(*_sql.lock_account(account_id=account_id))
    found: int = await connection.fetchval(*_sql.count(account_id=account_id))
    return found


async def of_account(
    connection: Connection, vault: Vault, account_id: AccountId
) -> list[WebhookView]:
    rows = await connection.fetch(*_sql.of_account(account_id=account_id))
    return [_webhook(vault, row).view for row in rows]


async def get(
    connection: Connection, vault: Vault, webhook_id: str, account_id: AccountId
) -> Webhook | None:
    row = await connection.fetchrow(*_sql.get(webhook_id=webhook_id, account_id=account_id))
    return None if row is None else _webhook(vault, row)


async def lock(
    connection: Connection, vault: Vault, webhook_id: str, account_id: AccountId
) -> Webhook | None:
    row = await connection.fetchrow(*_sql.lock(webhook_id=webhook_id, account_id=account_id))
    return None if row is None else _webhook(vault, row)


async def change(
    connection: Connection,
    vault: Vault,
    webhook: Webhook,
) -> None:
    """All of it as it is in this value; locked before."""
    view = webhook.view
    sealed = _sealed(vault, view.id, webhook.destination)
    await connection.execute(*_sql.change(webhook=view, sealed_destination=sealed))


async def remove(connection: Connection, webhook_id: str, account_id: AccountId) -> None:
    await connection.execute(*_sql.remove(webhook_id=webhook_id, account_id=account_id))


async def pause(
    connection: Connection, webhook_id: str, now: datetime, reason: PauseReason, detail: str
) -> bool:
    """Whether it was not paused before."""
    found = await connection.fetchval(
        *_sql.pause(webhook_id=webhook_id, now=now, reason=reason, detail=detail)
    )
    return found is not None


async def resume(
    connection: Connection, webhook_id: str, now: datetime, *, skip_missed: bool
) -> None:
    """What waits is tried at once, with all its time before it; or it is given up."""
    await connection.execute(*_sql.resume(webhook_id=webhook_id, now=now, skip_missed=skip_missed))
    if skip_missed:
        await connection.execute(*_sql.skip_deliveries(webhook_id=webhook_id, now=now))
    await connection.execute(*_sql.resume_deliveries(webhook_id=webhook_id, now=now))


async def begin_anew(connection: Connection, webhook_id: str, now: datetime) -> None:
    """Whatever failed before does not count; a pause stays."""
    await connection.execute(*_sql.begin_anew(webhook_id=webhook_id, now=now))
    await connection.execute(*_sql.resume_deliveries(webhook_id=webhook_id, now=now))


async def note_success(connection: Connection, webhook_id: str, now: datetime) -> None:
    await connection.execute(*_sql.succeeded(webhook_id=webhook_id, now=now))


async def note_failure(
    connection: Connection, webhook_id: str, now: datetime, next_at: datetime
) -> None:
    await connection.execute(*_sql.failed(webhook_id=webhook_id, now=now, next_at=next_at))


async def note_given_up(connection: Connection, webhook_id: str) -> None:
    await connection.execute(*_sql.given_up(webhook_id=webhook_id))


def opened(vault: Vault, webhook_id: str, sealed: bytes) -> WebhookTarget:
    return codec.decode_json(vault.open(*DESTINATION, webhook_id, sealed), WebhookTarget)


def _sealed(vault: Vault, webhook_id: str, destination: WebhookTarget) -> bytes:
    return vault.seal(*DESTINATION, webhook_id, codec.encode_json(destination))


def _webhook(vault: Vault, row: Any) -> Webhook:
    destination = opened(vault, row["id"], row["sealed_destination"])
    is_failing = row["failing_since"] is not None and row["paused_at"] is None
    view = WebhookView(
        row["id"],
        row["name"],
        destination.url,
        [EventKind(kind) for kind in row["kinds"]],
        row["created_at"],
        row["task_id"],
        _pause(row),
        row["failing_since"],
        row["next_at"] if is_failing else None,
        row["waiting"],
        row["old_secret_until"],
    )
    return Webhook(view, destination)


def _pause(row: Any) -> Pause | None:
    if row["paused_at"] is None:
        return None
    return Pause(row["paused_at"], PauseReason(row["paused_for"]), row["paused_detail"])
