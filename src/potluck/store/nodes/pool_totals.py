"""Totals of the pool, for display; not used for planning."""

from potluck.model.device import DeviceKind
from potluck.store.database import Connection
from potluck.store.sql_files import load
from potluck.wire.consumer import DeviceCounts, PoolView

_sql = load("pool")
# Counting stops here: a count of a million takes time and helps no reader.
_COUNTED_TASKS = 10_000


async def count_pool(connection: Connection) -> PoolView:
    devices = await count_devices(connection)
    row = await connection.fetchrow(*_sql.totals(limit=_COUNTED_TASKS))
    assert row is not None
    return PoolView(
        nodes=row["nodes"],
        silent_nodes=row["silent_nodes"],
        gpus=devices.get(DeviceKind.GPU, DeviceCounts()),
        cpus=devices.get(DeviceKind.CPU, DeviceCounts()),
        waiting_tasks=row["waiting_tasks"],
        running_attempts=row["running_attempts"],
        counted_tasks=_COUNTED_TASKS,
    )


async def count_devices(connection: Connection) -> dict[str, DeviceCounts]:
    """By kind."""
    rows = await connection.fetch(*_sql.devices())
    return {row["kind"]: DeviceCounts(row["free"], row["busy"], row["away"]) for row in rows}
