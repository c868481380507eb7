"""Models of queries/recent.sql."""

from datetime import datetime, timedelta

from potluck.simulate.store.data import Data
from potluck.simulate.store.rows import Row
from potluck.simulate.store.statements import models
from potluck.store.sql_files import load

_sql = load("recent")


@models(_sql.uses)
def uses(data: Data, since: str, behind: str, limit: int) -> list[Row]:
    return _page(data, [row for row in data.attempts.all() if since <= row["id"] < behind], limit)


@models(_sql.long_uses)
def long_uses(data: Data, since: datetime, behind: str, limit: int) -> list[Row]:
    found = [row for row in data.attempts.all() if row["id"] < behind and _is_long(row, since)]
    return _page(data, found, limit)


def _is_long(attempt: Row, since: datetime) -> bool:
    ended_at = attempt["finished_at"]
    if ended_at is None:
        return True
    return bool(ended_at >= since and ended_at - attempt["assigned_at"] > timedelta(hours=1))


def _page(data: Data, found: list[Row], limit: int) -> list[Row]:
    found.sort(key=lambda row: row["id"], reverse=True)
    return [_use(data, row) for row in found[:limit]]


def _use(data: Data, attempt: Row) -> Row:
    shares = data.attempt_devices.of("attempt", attempt["id"])
    return {
        "id": attempt["id"],
        "account_id": attempt["consumer_id"],
        "milli": sum(share["milli"] for share in shares),
        "began_at": attempt["assigned_at"].timestamp(),
        "ended_at": attempt["finished_at"] and attempt["finished_at"].timestamp(),
    }
