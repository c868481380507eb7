"""Totals of the pool, for display; not used for planning."""

from potluck.decide.market import DeviceDemand, OfferedDevices
from potluck.model.device import DeviceKind
from potluck.store.database import Connection
from potluck.store.sql_files import load
from potluck.wire.consumer import DeviceCounts, PoolView

_sql = load("pool")
# Counting stops here: a count of a million takes time and helps no reader.
COUNTED_TASKS = 10_000
_MOST_OFFERS = 5_000
_MOST_WISHES = 100


async def count_pool(connection: Connection) -> PoolView:
    devices = await count_devices(connection)
    row = await connection.fetchrow(*_sql.totals(limit=COUNTED_TASKS))
    assert row is not None
    return PoolView(
        nodes=row["nodes"],
        silent_nodes=row["silent_nodes"],
        gpus=devices.get(DeviceKind.GPU, DeviceCounts()),
        cpus=devices.get(DeviceKind.CPU, DeviceCounts()),
        waiting_tasks=row["waiting_tasks"],
        running_attempts=row["running_attempts"],
        counted_tasks=COUNTED_TASKS,
    )


async def list_offers(connection: Connection) -> list[OfferedDevices]:
    rows = await connection.fetch(*_sql.offers(limit=_MOST_OFFERS))
    return [
        OfferedDevices(
            DeviceKind(row["kind"]),
            row["model"],
            row["price_micro_per_hour"],
            row["memory_bytes"],
            row["devices"],
            row["free"],
        )
        for row in rows
    ]


async def list_wishes(connection: Connection) -> list[DeviceDemand]:
    """Of up to `COUNTED_TASKS` waiting tasks."""
    rows = await connection.fetch(*_sql.wishes(limit=COUNTED_TASKS, wishes=_MOST_WISHES))
    return [
        DeviceDemand(
            None if row["kind"] is None else DeviceKind(row["kind"]),
            row["model"],
            row["memory_bytes"],
            row["max_price_micro_per_hour"],
            row["tasks"],
        )
        for row in rows
    ]


async def count_devices(connection: Connection) -> dict[str, DeviceCounts]:
    """By kind."""
    rows = await connection.fetch(*_sql.devices())
    return {row["kind"]: DeviceCounts(row["free"], row["busy"], row["away"]) for row in rows}
