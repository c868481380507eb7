"""The outbox: facts are written with what made them true, and delivered afterwards."""

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
    event: Event  # without what it says


async def append(connection: Connection, events: Sequence[Event]) -> None:
    """In this order, by one statement."""
    if not events:
        return
    await connection.execute(_sql.append, *columns(events))


def columns(events: Sequence[Event]) -> tuple[list[Any], ...]:
    """As a statement takes them, in their order."""
    return (
        [event.account_id for event in events],
        [event.task_id for event in events],
        [event.node_id for event in events],
        [event.kind for event in events],
        [event.data for event in events],
    )


async def place(connection: Connection, limit: int, told: int) -> list[PlacedEvent]:
    """Puts the next ones behind all that have a place; up to `told` everybody was told."""
    rows = await connection.fetch(_sql.place, limit, told)
    return sorted((_placed(row) for row in rows), key=lambda each: each.place)


async def untold(connection: Connection, limit: int) -> list[PlacedEvent]:
    """The first of those that have a place, and of which nobody noted that they were told."""
    return [_placed(row) for row in await connection.fetch(_sql.untold, limit)]


def _placed(row: Any) -> PlacedEvent:
    event = Event(row["account_id"], EventKind(row["kind"]), row["task_id"], row["node_id"])
    return PlacedEvent(row["place"], event)
