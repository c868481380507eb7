"""Errors of all instances, one row for each kind and place."""

from datetime import timedelta

from msgspec import Struct

from potluck.store.database import Connection
from potluck.store.sql_files import load
from potluck.wire.alerts import ErrorGroup

_sql = load("errors")
# The least recent are deleted first.
_MOST_GROUPS = 1_000


class NewErrors(Struct, frozen=True):
    """Errors of one kind and place since the last time."""

    fingerprint: str
    kind: str
    place: str
    message: str
    trace: str
    occurrences: int


async def add(connection: Connection, instance: str, errors: list[NewErrors]) -> None:
    await connection.execute(*_sql.add(errors=errors, instance=instance))


async def list_latest(connection: Connection, limit: int) -> list[ErrorGroup]:
    rows = await connection.fetch(*_sql.latest(limit=limit))
    return [ErrorGroup(**dict(row)) for row in rows]


async def delete_old(connection: Connection, retention: timedelta, limit: int) -> int:
    """Old ones, and the least recent if there are too many."""
    gone: int = await connection.fetchval(
        *_sql.delete_old(kept=retention, limit=limit, most=_MOST_GROUPS)
    )
    return gone
