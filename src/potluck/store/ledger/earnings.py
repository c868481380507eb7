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
            attempts=row["attempts"],
            seconds=row["seconds"],
            reward_micro=row["reward_micro"],
            used=_used(row),
        )
        for row in rows
    ]
    attempts, seconds = total["attempts"] or 0, total["seconds"] or 0.0
    reward = total["reward_micro"] or 0
    return Earnings(since, until, attempts, seconds, reward, lines, _used(total))


def _used(row: Mapping[str, Any]) -> UsedInAll:
    return UsedInAll(**{name: row[name] for name in UsedInAll.__struct_fields__})
