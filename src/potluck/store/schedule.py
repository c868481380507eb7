"""What one scheduling round looks at."""

from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from potluck.decide.snapshot import FreeDevice, FreeNode, Snapshot, WaitingTask
from potluck.model.device import DeviceKind
from potluck.model.ids import AccountId, TaskId
from potluck.model.task import Limits, TaskRequest
from potluck.store.database import Connection
from potluck.store.named import load
from potluck.wire import codec

_sql = load("schedule")


class Round(Struct, frozen=True):
    """A snapshot, and the limits that an attempt carries along."""

    snapshot: Snapshot
    limits: dict[TaskId, Limits]


async def load_round(connection: Connection, most_tasks: int) -> Round:
    tasks: list[WaitingTask] = []
    limits: dict[TaskId, Limits] = {}
    now = datetime.min.replace(tzinfo=UTC)
    for row in await connection.fetch(_sql.waiting, most_tasks):
        request = codec.decode_json(row["request"], TaskRequest)
        tasks.append(_waiting(row, request))
        limits[row["id"]] = request.limits
        now = row["now"]
    nodes = await _nodes(connection) if tasks else ()
    available = await _available(connection, tasks)
    return Round(Snapshot(now, tuple(tasks), nodes, available), limits)


async def cheapest_micro_per_hour(connection: Connection) -> int | None:
    """The lowest price on offer; None when nothing is offered."""
    found: int | None = await connection.fetchval(_sql.cheapest)
    return found


def _waiting(row: Any, request: TaskRequest) -> WaitingTask:
    return WaitingTask(
        id=row["id"],
        account_id=row["account_id"],
        requirements=request.requirements,
        run_seconds=request.limits.run_seconds,
        priority=row["priority"],
        queued_at=row["queued_at"],
        not_before=row["not_before"],
        start_before=row["start_before"],
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


async def _available(connection: Connection, tasks: list[WaitingTask]) -> dict[AccountId, int]:
    accounts = list({task.account_id for task in tasks})
    rows = await connection.fetch(_sql.balances, accounts) if accounts else []
    return {AccountId(row["account_id"]): row["available_micro"] for row in rows}
