"""What an account's machines have earned, from the ledger and the attempts that it pays for."""

from datetime import datetime

from potluck.model.ids import AccountId
from potluck.store.database import Connection
from potluck.store.named import load
from potluck.wire.owner import Earned, Earnings

_sql = load("earnings")
# Of days, nodes and devices. The total is of all, whatever is listed.
_MOST_LINES = 10_000


async def earned(
    connection: Connection, provider_id: AccountId, since: datetime, until: datetime
) -> Earnings:
    """What was paid in this time, and the attempts that ended in it."""
    total, *rows = await connection.fetch(_sql.earned, provider_id, since, until, _MOST_LINES + 1)
    lines = [
        Earned(
            day=row["day"],
            node_id=row["node_id"],
            node_name=row["node_name"],
            device_id=row["device_id"],
            attempts=row["attempts"],
            seconds=row["seconds"],
            reward_micro=row["reward_micro"],
        )
        for row in rows
    ]
    attempts, seconds = total["attempts"] or 0, total["seconds"] or 0.0
    return Earnings(since, until, attempts, seconds, total["reward_micro"] or 0, lines)
