"""The leader's row: who leads, in which term, and until when by the database's clock."""

from datetime import UTC, datetime, timedelta

from msgspec import Struct

from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("leader")


class Leadership(Struct, frozen=True):
    holder: str
    term: int
    led_until: datetime = datetime.min.replace(tzinfo=UTC)  # end of the previous term


class TermOver(Exception):
    """Another instance leads, or may lead: plans of this one have no effect."""


async def acquire_or_renew(
    connection: Connection, holder: str, seconds: float
) -> Leadership | None:
    """None while another instance holds the leadership."""
    row = await connection.fetchrow(
        *_sql.lead(holder=holder, term_duration=timedelta(seconds=seconds))
    )
    return Leadership(holder, row["term"], row["led_until"]) if row else None


async def is_current(connection: Connection, leadership: Leadership) -> bool:
    """Whether this term still runs; it cannot end before the transaction does."""
    row = await connection.fetchrow(*_sql.holds(leadership=leadership))
    return row is not None


async def resign(connection: Connection, holder: str) -> None:
    await connection.execute(*_sql.resign(holder=holder))


async def remaining_seconds(connection: Connection) -> float:
    """How long the term runs without a renewal."""
    seconds: float | None = await connection.fetchval(*_sql.remaining())
    return 0.0 if seconds is None else seconds
