"""Webhooks: addresses for the events of accounts. Address and secrets are sealed."""

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
    """The address and the signing secrets; the first secret is the current one."""

    url: str
    secrets: tuple[str, ...]


class Webhook(Struct, frozen=True):
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
    """Locks the account, so that no other webhook is added in the meantime."""
    await connection.execute(*_sql.lock_account(account_id=account_id))
    count: int = await connection.fetchval(*_sql.count(account_id=account_id))
    return count


async def of_account(
    connection: Connection,
    vault: Vault,
    account_id: AccountId,
    behind: str | None = None,
    limit: int | None = None,
) -> list[WebhookView]:
    """All of them, or a page."""
    rows = await connection.fetch(
        *_sql.of_account(account_id=account_id, behind=behind, limit=limit)
    )
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


async def change(connection: Connection, vault: Vault, webhook: Webhook) -> None:
    """Writes the whole value; locked before."""
    view = webhook.view
    sealed = _sealed(vault, view.id, webhook.destination)
    await connection.execute(*_sql.change(webhook=view, sealed_destination=sealed))


async def remove(connection: Connection, webhook_id: str, account_id: AccountId) -> None:
    await connection.execute(*_sql.remove(webhook_id=webhook_id, account_id=account_id))


async def pause(
    connection: Connection, webhook_id: str, now: datetime, reason: PauseReason, detail: str
) -> bool:
    """Whether it was not paused before."""
    paused_id = await connection.fetchval(
        *_sql.pause(webhook_id=webhook_id, now=now, reason=reason, detail=detail)
    )
    return paused_id is not None


async def resume(
    connection: Connection, webhook_id: str, now: datetime, *, skip_missed: bool
) -> None:
    """Queued deliveries are retried now with their full time, or skipped."""
    await connection.execute(*_sql.resume(webhook_id=webhook_id, now=now, skip_missed=skip_missed))
    if skip_missed:
        await connection.execute(*_sql.skip_deliveries(webhook_id=webhook_id, now=now))
    await connection.execute(*_sql.resume_deliveries(webhook_id=webhook_id, now=now))


async def reset_failures(connection: Connection, webhook_id: str, now: datetime) -> None:
    """Earlier failures no longer count; a pause stays."""
    await connection.execute(*_sql.begin_anew(webhook_id=webhook_id, now=now))
    await connection.execute(*_sql.resume_deliveries(webhook_id=webhook_id, now=now))


async def record_success(connection: Connection, webhook_id: str, now: datetime) -> None:
    await connection.execute(*_sql.succeeded(webhook_id=webhook_id, now=now))


async def record_failure(
    connection: Connection, webhook_id: str, now: datetime, next_at: datetime
) -> None:
    await connection.execute(*_sql.failed(webhook_id=webhook_id, now=now, next_at=next_at))


async def record_given_up(connection: Connection, webhook_id: str) -> None:
    await connection.execute(*_sql.given_up(webhook_id=webhook_id))


def open_target(vault: Vault, webhook_id: str, sealed: bytes) -> WebhookTarget:
    return codec.decode_json(vault.open(*DESTINATION, webhook_id, sealed), WebhookTarget)


def _sealed(vault: Vault, webhook_id: str, destination: WebhookTarget) -> bytes:
    return vault.seal(*DESTINATION, webhook_id, codec.encode_json(destination))


def _webhook(vault: Vault, row: Any) -> Webhook:
    destination = open_target(vault, row["id"], row["sealed_destination"])
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
