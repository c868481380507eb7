"""The events of an account, read in order from any place on."""

import hashlib
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from potluck.model.event import EventKind
from potluck.model.ids import AccountId, TaskId, ulid
from potluck.store.database import Connection
from potluck.store.sql_files import Query, load
from potluck.wire import codec
from potluck.wire.admin import PoolEvent
from potluck.wire.events import EventView

_sql = load("event_list")
_DATA: type[dict[str, Any]] = dict[str, Any]
_EVERY_KIND = tuple(EventKind)
# What admins see of the data of others' events. The steps of attempts are left out: there are three
# or more of them for each event of a task.
_POOL_KINDS = tuple(
    kind
    for kind in EventKind
    if kind is EventKind.ATTEMPT_UNFUNDED or not kind.startswith("attempt.")
)
_OF_POOL = ("state", "reason", "attempt_id", "node_id", "device_id", "health")


class EventFilter(Struct, frozen=True):
    """A subset of an account's events; by default all."""

    kinds: tuple[EventKind, ...] = ()
    task_id: TaskId | None = None


class PlacedPoolEvent(Struct, frozen=True):
    place: int
    view: PoolEvent


class PlacedView(Struct, frozen=True):
    place: int
    view: EventView


class EventsAfter(Struct, frozen=True):
    """The events after a place."""

    events: list[PlacedView]
    head: int  # up to which no event of any account can be added any more
    forgotten: int  # up to which this account's events are deleted


async def read_head(connection: Connection) -> int:
    """Statements after this one see all events up to this place, and no other will be added."""
    place: int = await connection.fetchval(*_sql.head())
    return place


async def events_after(
    connection: Connection, account_id: AccountId, selection: EventFilter, place: int, limit: int
) -> EventsAfter:
    """The first events after this place."""
    query = _sql.behind if selection.task_id is None else _sql.behind_of_task
    head = await read_head(connection)
    rows = await _read(
        connection, query, account_id, selection, limit, after_place=place, newest_place=head
    )
    events = [_placed(row) for row in rows if row["place"] is not None]
    return EventsAfter(events, head, rows[0]["forgotten"])


async def newest(
    connection: Connection, account_id: AccountId, selection: EventFilter, before: int, limit: int
) -> list[PlacedView]:
    """The last events before this place, newest first."""
    query = _sql.newest if selection.task_id is None else _sql.newest_of_task
    rows = await _read(connection, query, account_id, selection, limit, before_place=before)
    return [_placed(row) for row in rows]


async def newest_of_pool(
    connection: Connection, after: int, before: int, limit: int
) -> tuple[list[PlacedPoolEvent], int]:
    """The last events of all accounts between two places, newest first, and the newest place."""
    head = await read_head(connection)
    end = min(before, head + 1)
    rows = await connection.fetch(
        *_sql.of_pool(after_place=after, before_place=end, kinds=_POOL_KINDS, limit=limit)
    )
    return [PlacedPoolEvent(row["place"], _pool_event(row)) for row in rows], head


async def delete_old(connection: Connection, older_than: timedelta, most: int) -> int:
    gone: int = await connection.fetchval(*_sql.forget(older_than=older_than, limit=most))
    return gone


async def _read(
    connection: Connection,
    query: Query,
    account_id: AccountId,
    selection: EventFilter,
    limit: int,
    **place: int,
) -> list[Any]:
    kinds = selection.kinds or _EVERY_KIND
    task = {} if selection.task_id is None else {"task_id": selection.task_id}
    rows: list[Any] = await connection.fetch(
        *query(account_id=account_id, kinds=kinds, limit=limit, **place, **task)
    )
    return rows


def _placed(row: Any) -> PlacedView:
    return PlacedView(row["place"], event_view(row))


def event_view(row: Any) -> EventView:
    return EventView(
        event_id(row["id"], row["created_at"]),
        EventKind(row["kind"]),
        row["created_at"],
        row["task_id"],
        row["task_name"],
        row["node_id"],
        codec.decode_stored(row["data"], _DATA),
    )


def _pool_event(row: Any) -> PoolEvent:
    data = codec.decode_stored(row["data"], _DATA)
    return PoolEvent(
        event_id(row["id"], row["created_at"]),
        EventKind(row["kind"]),
        row["created_at"],
        *(row["account_id"], row["address"], row["label"]),
        *(row["task_id"], row["node_id"], row["node_name"]),
        {name: data[name] for name in _OF_POOL if name in data},
    )


def event_id(number: int, created_at: datetime) -> str:
    """An id in the common format. It also depends on the time: a database restored from a backup
    reuses numbers, and an id must not name two events.
    """
    identity = f"{number} {created_at.isoformat()}".encode()
    milliseconds = int(created_at.timestamp() * 1000)
    return f"event_{ulid(milliseconds, hashlib.blake2b(identity, digest_size=10).digest())}"
