"""The earnings of an account's machines, from the ledger and the paid attempts."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from potluck.model.ids import AccountId
from potluck.store.database import Connection
from potluck.store.sql_files import load
from potluck.wire.own_machines import Earned, Earnings, UsedInAll

_sql = load("earnings")
# Per day, node and device. The total covers everything.
_MAX_LINES = 10_000


async def read_earnings(
    connection: Connection, provider_id: AccountId, since: datetime, until: datetime
) -> Earnings:
    """Payments in this period, and the attempts that ended in it."""
    total, *rows = await connection.fetch(
        *_sql.earned(provider_id=provider_id, since=since, until=until, limit=_MAX_LINES + 1)
    )
    lines = [
        Earned(
            day=row["day"],
            node_id=row["node_id"],
            node_name=row["node_name"],
            device_id=row["device_id"],
            **_figures(row),
            used=_used(row),
        )
        for row in rows
    ]
    return Earnings(since, until, **_figures(total), earned=lines, used=_used(total))


def _figures(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("attempts", "worked_seconds", "earned_micro", "fee_micro")}


def _used(row: Mapping[str, Any]) -> UsedInAll:
    return UsedInAll(**{name: row[name] for name in UsedInAll.__struct_fields__})
