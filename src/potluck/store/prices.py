"""What a task would cost where it is cheapest."""

from potluck.model.task import Requirements
from potluck.store.database import Connection
from potluck.store.named import load

_sql = load("prices")


async def cheapest_micro_per_hour(connection: Connection, wanted: Requirements) -> int | None:
    """The lowest price for such devices; None when nothing is offered."""
    found: int | None = await connection.fetchval(_sql.cheapest, wanted.cores, wanted.device_count)
    return found
