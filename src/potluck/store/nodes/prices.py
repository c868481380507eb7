"""What devices cost and earned: the history of a price, and similar devices."""

from datetime import timedelta
from typing import Final

from potluck.decide.price_suggestion import LEAST_OWNERS, OwnerWork, SimilarWork
from potluck.model.ids import AccountId, DeviceId
from potluck.store.database import Connection
from potluck.store.nodes.device_list import no_such_device
from potluck.store.sql_files import load
from potluck.wire.own_machines import DevicePrice

_sql = load("prices")

PERIOD: Final = timedelta(days=7)
_MOST_SIMILAR = 100


async def read_history(
    connection: Connection, device_id: DeviceId, account_id: AccountId, limit: int
) -> list[DevicePrice]:
    """Newest first; the oldest is from when the device was first seen."""
    rows = await connection.fetch(
        *_sql.history(device_id=device_id, account_id=account_id, limit=limit)
    )
    if not rows:
        raise no_such_device(device_id)
    return [DevicePrice(row["since"], row["price_micro_per_hour"]) for row in rows]


async def read_similar(
    connection: Connection, device_id: DeviceId, account_id: AccountId
) -> SimilarWork:
    """Raises NotFound unless the device is the account's."""
    row = await connection.fetchrow(
        *_sql.similar(
            device_id=device_id,
            account_id=account_id,
            period=PERIOD,
            least_owners=LEAST_OWNERS,
            limit=_MOST_SIMILAR,
        )
    )
    if not row["is_own"]:
        raise no_such_device(device_id)
    owners = zip(row["owners_seconds"], row["owners_micro"], strict=True)
    return SimilarWork(
        row["is_same_model"],
        row["devices"],
        row["offered_seconds"],
        row["worked_seconds"],
        tuple(OwnerWork(float(seconds), micro) for seconds, micro in owners),
        tuple(row["prices"]),
    )
