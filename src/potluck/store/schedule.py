"""What one scheduling round looks at."""

from typing import Any

from potluck.decide.snapshot import FreeDevice, FreeNode, Snapshot, WaitingTask
from potluck.model.device import DeviceKind
from potluck.model.ids import AccountId
from potluck.model.task import Limits, Requirements
from potluck.store.database import Connection
from potluck.store.named import load
from potluck.wire import codec

_sql = load("schedule")


async def snapshot(connection: Connection, behind: WaitingTask | None, most_tasks: int) -> Snapshot:
    """A page of the queue, from behind this task on, and all that is free."""
    after = (None, None) if behind is None else (behind.priority, behind.id)
    rows = await connection.fetch(_sql.waiting, *after, most_tasks)
    tasks = tuple(_waiting(row) for row in rows)
    nodes = await _nodes(connection) if tasks else ()
    return Snapshot(tasks, nodes, await _available(connection, tasks))


async def next_ready_seconds(connection: Connection) -> float | None:
    """When the first task that is put off may be tried again."""
    found: float | None = await connection.fetchval(_sql.next_ready)
    return found


async def cheapest_micro_per_hour(connection: Connection, wanted: Requirements) -> int | None:
    """The lowest price for such devices; None when nothing is offered."""
    found: int | None = await connection.fetchval(_sql.cheapest, wanted.cores, wanted.device_count)
    return found


def _waiting(row: Any) -> WaitingTask:
    return WaitingTask(
        id=row["id"],
        account_id=row["account_id"],
        requirements=codec.decode_json(row["requirements"], Requirements),
        limits=codec.decode_json(row["limits"], Limits),
        priority=row["priority"],
        failed_on=frozenset(row["failed_on"]),
    )


async def _nodes(connection: Connection) -> tuple[FreeNode, ...]:
    devices: dict[str, list[FreeDevice]] = {}
    for row in await connection.fetch(_sql.devices):
        devices.setdefault(row["node_id"], []).append(_device(row))
    return tuple(
        FreeNode(
            id=row["id"],
            account_id=row["account_id"],
            own_tasks_only=row["own_tasks_only"],
            cores=row["cores"],
            free_cores=row["free_cores"],
            free_memory_bytes=row["free_memory_bytes"],
            free_disk_bytes=row["free_disk_bytes"],
            devices=tuple(devices.get(row["id"], ())),
        )
        for row in await connection.fetch(_sql.nodes)
    )


def _device(row: Any) -> FreeDevice:
    return FreeDevice(
        id=row["id"],
        kind=DeviceKind(row["kind"]),
        model=row["model"],
        memory_bytes=row["memory_bytes"],
        price_micro_per_hour=row["price_micro_per_hour"],
        free_milli=row["free_milli"],
    )


async def _available(
    connection: Connection, tasks: tuple[WaitingTask, ...]
) -> dict[AccountId, int]:
    accounts = list({task.account_id for task in tasks})
    rows = await connection.fetch(_sql.balances, accounts) if accounts else []
    return {AccountId(row["account_id"]): row["available_micro"] for row in rows}
