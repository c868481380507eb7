"""The outbox: facts are written with what made them true, and delivered afterwards."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from potluck.model.event import EventKind
from potluck.model.ids import AccountId, NodeId, TaskId
from potluck.store.database import Connection
from potluck.store.named import load

_sql = load("events")


class Event(Struct, frozen=True):
    account_id: AccountId
    kind: EventKind
    task_id: TaskId | None = None
    node_id: NodeId | None = None
    data: dict[str, Any] = {}


class PendingEvent(Struct, frozen=True):
    id: int
    event: Event


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


async def undelivered(
    connection: Connection, limit: int, delivered: Sequence[int]
) -> list[PendingEvent]:
    """The next ones; those that have been delivered since are marked as such."""
    rows = await connection.fetch(_sql.undelivered, limit, delivered)
    return [
        PendingEvent(
            row["id"],
            Event(row["account_id"], EventKind(row["kind"]), row["task_id"], row["node_id"]),
        )
        for row in rows
    ]
