"""Recent device usage of accounts, per attempt."""

from datetime import datetime
from typing import Any

from msgspec import Struct

from potluck.model.ids import AccountId, AttemptId
from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("recent")


class RecentUse(Struct, frozen=True):
    """The device share of an attempt, and its time span."""

    attempt_id: AttemptId
    account_id: AccountId
    milli: int
    began_at: float
    ended_at: float | None  # None while it is live


async def uses(connection: Connection, since: str, behind: str, most: int) -> list[RecentUse]:
    """A page of attempts in an id range, newest first."""
    return _uses(await connection.fetch(*_sql.uses(since_id=since, before_id=behind, limit=most)))


async def long_uses(
    connection: Connection, since: datetime, behind: str, most: int
) -> list[RecentUse]:
    """A page of those that still run, or ended after `since` and ran for more than an hour."""
    return _uses(await connection.fetch(*_sql.long_uses(since=since, before_id=behind, limit=most)))


def _uses(rows: Any) -> list[RecentUse]:
    return [
        RecentUse(row["id"], row["account_id"], row["milli"], row["began_at"], row["ended_at"])
        for row in rows
    ]
