"""What an account's devices offered, worked and earned."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from potluck.model.ids import AccountId
from potluck.store.database import Connection
from potluck.store.sql_files import load
from potluck.wire.money.rewards import Contribution, DeviceContribution

_sql = load("contribution")
# The total covers everything.
_MAX_DEVICES = 10_000


async def read_contribution(
    connection: Connection, account_id: AccountId, since: datetime
) -> tuple[Contribution, list[DeviceContribution]]:
    """The total, and each device. `since` is the beginning of a day (UTC)."""
    total, *rows = await connection.fetch(
        *_sql.contributed(account_id=account_id, since=since, limit=_MAX_DEVICES + 1)
    )
    devices = [
        DeviceContribution(
            row["node_id"], row["node_name"], row["device_id"], row["model"], _contribution(row)
        )
        for row in rows
    ]
    return _contribution(total), devices


def _contribution(row: Mapping[str, Any]) -> Contribution:
    return Contribution(**{name: row[name] for name in Contribution.__struct_fields__})
