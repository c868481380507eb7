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


async def append(connection: Connection, events: Sequence[Event]) -> None:
    """In this order, in one statement."""
    if not events:
        return
    await connection.execute(*_sql.append(events=events))


async def place_events(connection: Connection, limit: int, announced: int) -> list[PlacedEvent]:
    """Places new events after the placed ones; stores that those up to `announced` are done."""
    rows = await connection.fetch(*_sql.place(limit=limit, told=announced))
    return sorted((_placed(row) for row in rows), key=lambda placed: placed.place)


async def list_unannounced(connection: Connection, limit: int) -> list[PlacedEvent]:
    """The first placed events that are not stored as announced."""
    rows = await connection.fetch(*_sql.untold(limit=limit))
    return [PlacedEvent(row["place"], _event(row)) for row in rows]


def _placed(row: Any) -> PlacedEvent:
    facts = (row["state"], row["reason"], row["is_of_attempt"], row["start_seconds"])
    return PlacedEvent(row["place"], _event(row), *facts)


def _event(row: Any) -> Event:
    return Event(row["account_id"], EventKind(row["kind"]), row["task_id"], row["node_id"])
