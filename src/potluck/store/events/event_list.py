"""The events of an account, read in the order in which they were told, from any place on."""

import hashlib
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from potluck.model.event import EventKind
from potluck.model.ids import AccountId, TaskId, ulid
from potluck.store.database import Connection
from potluck.store.sql_files import Query, load
from potluck.wire import codec
from potluck.wire.events import EventView

_sql = load("event_list")
_DATA: type[dict[str, Any]] = dict[str, Any]
_EVERY_KIND = tuple(EventKind)


class EventFilter(Struct, frozen=True):
    """Some of an account's events; all of them, if nothing is said."""

    kinds: tuple[EventKind, ...] = ()
    task_id: TaskId | None = None


class Placed(Struct, frozen=True):
    place: int
    view: EventView


class Behind(Struct, frozen=True):
    """What there was behind a place, in one moment."""

    found: list[Placed]
    head: int  # the place of the newest event of all: there is nothing else up to it
    forgotten: int  # up to which this account's events are no longer kept


async def head(connection: Connection) -> int:
    place: int = await connection.fetchval(*_sql.head())
    return place


async def behind(
    connection: Connection, account_id: AccountId, wanted: EventFilter, place: int, limit: int
) -> Behind:
    """The first ones behind this place."""
    query = _sql.behind if wanted.task_id is None else _sql.behind_of_task
    rows = await _read(connection, query, account_id, wanted, limit, after_place=place)
    found = [_placed(row) for row in rows if row["place"] is not None]
    return Behind(found, rows[0]["head"], rows[0]["forgotten"])


async def newest(
    connection: Connection, account_id: AccountId, wanted: EventFilter, before: int, limit: int
) -> list[Placed]:
    """The last ones before this place, newest first."""
    query = _sql.newest if wanted.task_id is None else _sql.newest_of_task
    rows = await _read(connection, query, account_id, wanted, limit, before_place=before)
    return [_placed(row) for row in rows]


async def forget(connection: Connection, older_than: timedelta, most: int) -> int:
    gone: int = await connection.fetchval(*_sql.forget(older_than=older_than, limit=most))
    return gone


async def _read(
    connection: Connection,
    query: Query,
    account_id: AccountId,
    wanted: EventFilter,
    limit: int,
    **place: int,
) -> list[Any]:
    kinds = wanted.kinds or _EVERY_KIND
    task = {} if wanted.task_id is None else {"task_id": wanted.task_id}
    rows: list[Any] = await connection.fetch(
        *query(account_id=account_id, kinds=kinds, limit=limit, **place, **task)
    )
    return rows


def _placed(row: Any) -> Placed:
    return Placed(row["place"], view(row))


def view(row: Any) -> EventView:
    return EventView(
        event_id(row["id"], row["created_at"]),
        EventKind(row["kind"]),
        row["created_at"],
        row["task_id"],
        row["task_name"],
        row["node_id"],
        codec.decode_json(row["data"], _DATA),
    )


def event_id(number: int, created_at: datetime) -> str:
    """Of the shape of every other id. It is not the number alone: a database that was brought back
    from a backup counts on from there, and who has seen an id must not see it on something else.
    """
    about = f"{number} {created_at.isoformat()}".encode()
    milliseconds = int(created_at.timestamp() * 1000)
    return f"event_{ulid(milliseconds, hashlib.blake2b(about, digest_size=10).digest())}"
