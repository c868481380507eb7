"""The outbox: events are written in the transaction of their cause, and announced afterwards."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from potluck.model.event import EventKind
from potluck.model.ids import AccountId, NodeId, TaskId
from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("events")


class Event(Struct, frozen=True):
    account_id: AccountId
    kind: EventKind
    task_id: TaskId | None = None
    node_id: NodeId | None = None
    data: dict[str, Any] = {}


class PlacedEvent(Struct, frozen=True):
    place: int
    event: Event  # without its data
    state: str | None = None  # that the task or attempt reached
    reason: str | None = None  # of its end
    is_of_attempt: bool = False  # whether an attempt caused it
    start_seconds: float | None = None  # how long the task waited for its first start, just now
    has_webhook: bool = False  # whether its account has any


async def append(connection: Connection, events: Sequence[Event]) -> None:
    """In this order, in one statement."""
    if not events:
        return
    await connection.execute(*_sql.append(events=events))


class Unannounced(Struct, frozen=True):
    """What follows the announced events."""

    events: list[PlacedEvent]
    announced: int  # the place of the last one of all that are announced by now
    is_mode_outdated: bool  # whether `change_mode` is due
    has_unplaced: bool  # whether `place_events` is due
    has_more: bool  # beyond the limit, or while an open transaction may add one before them


async def read_unannounced(
    connection: Connection, announced: int, version: str, limit: int
) -> Unannounced:
    """After this place, and after those that are stored as announced."""
    rows = await connection.fetch(
        *_sql.unannounced(announced=announced, version=version, limit=limit)
    )
    events = [_placed(row) for row in rows if row["place"] is not None]
    head = rows[0]
    announced = events[-1].place if events else head["announced"]
    return Unannounced(
        events,
        announced,
        head["is_mode_outdated"],
        head["has_unplaced"],
        has_more=(head["newest"] or 0) > announced,
    )


async def record_announced(connection: Connection, place: int) -> None:
    await connection.execute(*_sql.record_announced(announced=place))


async def change_mode(connection: Connection, version: str) -> None:
    """Events get their place when they are inserted, if all running instances have this version."""
    await connection.execute(*_sql.change_mode(version=version))


async def place_events(connection: Connection, limit: int) -> None:
    """Places events that were inserted without a place."""
    await connection.execute(*_sql.place(limit=limit))


def _placed(row: Any) -> PlacedEvent:
    facts = (
        row["state"],
        row["reason"],
        row["is_of_attempt"],
        row["start_seconds"],
        row["has_webhook"],
    )
    return PlacedEvent(row["place"], _event(row), *facts)


def _event(row: Any) -> Event:
    return Event(row["account_id"], EventKind(row["kind"]), row["task_id"], row["node_id"])
