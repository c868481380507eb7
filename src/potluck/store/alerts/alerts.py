"""Alerts and their silences. A transaction that changes alerts holds their lock until it ends."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from potluck.decide.alerts.messages import Silence, is_silenced
from potluck.decide.alerts.transitions import Alert, AlertStep
from potluck.model.alert import AlertName, AlertState
from potluck.model.ids import AccountId, NodeId
from potluck.store.database import Connection
from potluck.store.new_ids import new_silence_id
from potluck.store.sql_files import load
from potluck.wire.alerts import AlertView, SilenceView

_sql = load("alerts")
_MOST_VIOLATED = 200


async def lock(connection: Connection) -> datetime:
    """Returns the time."""
    row = await connection.fetchrow(*_sql.lock())
    now: datetime = row["now"]
    return now


async def list_open(connection: Connection) -> list[Alert]:
    """The pending and firing ones, and those whose end is still to be told."""
    return [_alert(row) for row in await connection.fetch(*_sql.open())]


async def store_step(connection: Connection, step: AlertStep) -> None:
    new = [alert for alert in step.changed if alert.id is None]
    known_alerts = [alert for alert in step.changed if alert.id is not None]
    if new:
        await connection.execute(*_sql.add(alerts=new))
    if known_alerts:
        await connection.execute(*_sql.change(alerts=known_alerts))
    if step.dropped:
        await connection.execute(*_sql.drop(ids=[alert.id for alert in step.dropped]))


async def record_outage(connection: Connection, alert: Alert) -> None:
    """An alert of the time while the database was away: once, and told if any instance told it."""
    await connection.execute(*_sql.drop_pending(alert=alert))
    await connection.execute(*_sql.mark_outage_notified(alert=alert))
    await connection.execute(*_sql.record_outage(alert=alert))


async def list_violated(connection: Connection) -> list[str]:
    """The subjects of alerts about contradictions; for a device, its node."""
    rows = await connection.fetch(*_sql.violated(limit=_MOST_VIOLATED))
    return [row["subject"] for row in rows]


async def list_online(connection: Connection, node_ids: Sequence[NodeId]) -> set[NodeId]:
    rows = await connection.fetch(*_sql.online_of(node_ids=node_ids))
    return {row["id"] for row in rows}


async def mark_notified(connection: Connection, alerts: Sequence[Alert], now: datetime) -> None:
    await connection.execute(*_sql.mark_notified(ids=[alert.id for alert in alerts], now=now))


async def latest_id(connection: Connection, names: Sequence[AlertName], subject: str) -> int:
    """Zero if there is none."""
    latest_id: int = await connection.fetchval(*_sql.latest_id(names=names, subject=subject))
    return latest_id


async def page(
    connection: Connection, before: int, limit: int, silences: Sequence[Silence], now: datetime
) -> list[AlertView]:
    """Newest first."""
    rows = await connection.fetch(*_sql.page(before_id=before, limit=limit))
    return [_view(row, is_silenced(_alert(row), silences, now)) for row in rows]


async def list_silences(connection: Connection) -> list[SilenceView]:
    """Those in effect."""
    return [_silence(row) for row in await connection.fetch(*_sql.silences())]


async def add_silence(
    connection: Connection,
    author_id: AccountId,
    name: AlertName | None,
    subject: str | None,
    seconds: float,
    comment: str,
) -> SilenceView:
    row = await connection.fetchrow(
        *_sql.add_silence(
            silence_id=new_silence_id(),
            name=name,
            subject=subject,
            duration=timedelta(seconds=seconds),
            author_id=author_id,
            comment=comment,
        )
    )
    return _silence(row)


async def end_silence(connection: Connection, silence_id: str) -> bool:
    """False if it is not in effect."""
    return await connection.fetchval(*_sql.end_silence(silence_id=silence_id)) is not None


async def delete_old(connection: Connection, retention: timedelta, limit: int) -> int:
    """Resolved alerts, and with them silences that have ended."""
    await connection.execute(*_sql.delete_old_silences(kept=retention, limit=limit))
    gone: int = await connection.fetchval(*_sql.delete_old(kept=retention, limit=limit))
    return gone


def as_silences(views: Sequence[SilenceView]) -> list[Silence]:
    return [Silence(view.name, view.subject, view.until) for view in views]


def _alert(row: Any) -> Alert:
    return Alert(
        AlertName(row["name"]),
        row["subject"],
        AlertState(row["state"]),
        row["detail"],
        row["began_at"],
        row["fired_at"],
        row["resolved_at"],
        row["told_at"],
        row["resolve_told_at"],
        row["account_id"],
        row["node_id"],
        row["id"],
    )


def _view(row: Any, silenced: bool) -> AlertView:
    return AlertView(
        row["id"],
        AlertName(row["name"]),
        row["subject"],
        AlertState(row["state"]),
        row["detail"],
        row["began_at"],
        row["fired_at"],
        row["resolved_at"],
        row["told_at"],
        row["node_id"],
        silenced,
    )


def _silence(row: Any) -> SilenceView:
    name = row["name"]
    return SilenceView(
        row["id"],
        None if name is None else AlertName(name),
        row["subject"],
        row["until"],
        row["author_id"],
        row["comment"],
        row["created_at"],
    )
