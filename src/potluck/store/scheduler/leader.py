"""The leader's row: who leads, in which term, until when by the database's clock."""

from datetime import UTC, datetime, timedelta

from msgspec import Struct

from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("leader")


class Leadership(Struct, frozen=True):
    holder: str
    term: int
    led_until: datetime = datetime.min.replace(tzinfo=UTC)  # when the term before this one ended


class TermOver(Exception):
    """Another instance leads, or may by now: whatever this one had planned changes nothing."""


async def lead(connection: Connection, holder: str, seconds: float) -> Leadership | None:
    """Renews or takes the leadership; None while somebody else holds it."""
    row = await connection.fetchrow(_sql.lead, holder, timedelta(seconds=seconds))
    return Leadership(holder, row["term"], row["led_until"]) if row else None


async def holds(connection: Connection, leadership: Leadership) -> bool:
    """Whether this term still runs; it does until the transaction ends."""
    row = await connection.fetchrow(_sql.holds, leadership.holder, leadership.term)
    return row is not None


async def resign(connection: Connection, holder: str) -> None:
    await connection.execute(_sql.resign, holder)


async def is_led(connection: Connection) -> bool:
    return bool(await connection.fetchval(_sql.is_led))


async def remaining_seconds(connection: Connection) -> float:
    """How long the term still runs if nobody renews it."""
    found: float | None = await connection.fetchval(_sql.remaining)
    return 0.0 if found is None else found
