"""Messages about alerts: stored with the change that they tell, and sent afterwards, in order."""

from collections.abc import Sequence
from datetime import timedelta

from msgspec import Struct

from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("alerts")


class NewMessage(Struct, frozen=True):
    destination: str  # a name that does not reveal its address
    title: str
    body: str
    is_resolved: bool


class ClaimedMessage(Struct, frozen=True):
    id: int
    destination: str
    title: str
    body: str
    is_resolved: bool
    attempts: int


async def add(connection: Connection, messages: Sequence[NewMessage]) -> None:
    if messages:
        await connection.execute(*_sql.add_messages(messages=messages))


async def claim(
    connection: Connection, destinations: Sequence[str], seconds: float
) -> list[ClaimedMessage]:
    """The next message of each destination, if it is due; no other instance sends it meanwhile."""
    rows = await connection.fetch(
        *_sql.claim(destinations=destinations, duration=timedelta(seconds=seconds))
    )
    return [
        ClaimedMessage(*(row[field] for field in ClaimedMessage.__struct_fields__)) for row in rows
    ]


async def mark_sent(connection: Connection, message_id: int) -> None:
    await connection.execute(*_sql.sent(message_id=message_id))


async def mark_failed(
    connection: Connection, message_id: int, pause_seconds: float, give_up_seconds: float
) -> bool:
    """Whether it is given up."""
    is_given_up: bool = await connection.fetchval(
        *_sql.failed(
            message_id=message_id,
            pause=timedelta(seconds=pause_seconds),
            give_up=timedelta(seconds=give_up_seconds),
        )
    )
    return is_given_up


async def delete_old(connection: Connection, retention: timedelta, limit: int) -> int:
    gone: int = await connection.fetchval(*_sql.delete_old_messages(kept=retention, limit=limit))
    return gone
