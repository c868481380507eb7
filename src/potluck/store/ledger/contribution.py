"""What an account's devices offered, worked and earned."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import asyncpg

from potluck.model.ids import AccountId
from potluck.store.database import Connection
from potluck.store.sql_files import load
from potluck.store.status import limit_statement_time
from potluck.wire.money.rewards import Contribution, DeviceContribution

_sql = load("contribution")
# The total covers everything.
_MAX_DEVICES = 10_000
# Each entry of the time is read, and an owner of many devices has thousands a day.
_TIMEOUT = "5s"


async def read_contribution(
    connection: Connection, account_id: AccountId, since: datetime, timeout: str = _TIMEOUT
) -> tuple[Contribution, list[DeviceContribution]] | None:
    """The total, and each device. `since` is the beginning of a day (UTC).

    None if adding up takes too long; the caller's transaction is over then.
    """
    await limit_statement_time(connection, timeout)
    try:
        total, *rows = await connection.fetch(
            *_sql.contributed(account_id=account_id, since=since, limit=_MAX_DEVICES + 1)
        )
    except asyncpg.QueryCanceledError:
        return None
    devices = [
        DeviceContribution(
            row["node_id"], row["node_name"], row["device_id"], row["model"], _contribution(row)
        )
        for row in rows
    ]
    return _contribution(total), devices


def _contribution(row: Mapping[str, Any]) -> Contribution:
    return Contribution(**{name: row[name] for name in Contribution.__struct_fields__})
