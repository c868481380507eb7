"""Figures of the whole pool for its operator, in few statements; not used for planning."""

from datetime import datetime, timedelta

import asyncpg

from potluck.model.alert import AlertState
from potluck.model.task import EndReason, TaskState
from potluck.store import table_copy
from potluck.store.database import Connection
from potluck.store.nodes.pool_totals import count_devices
from potluck.store.sql_files import load
from potluck.wire.status import (
    BackupStatus,
    EndCount,
    HistoryPoint,
    InstanceView,
    PoolFacts,
    PoolHistory,
)

_sql = load("status")
# Counting stops here: a count of a million takes time and helps no reader.
_COUNTED_TASKS = 1_000_000
_SEEN_WITHIN = timedelta(seconds=30)
RECENT = timedelta(minutes=5)
_LEDGER_TIMEOUT = "2s"
# Of a history: the most tasks that are looked at, and about how many steps it has.
_HISTORY_TASKS = 100_000
_HISTORY_STEPS = 96


async def read_facts(connection: Connection) -> PoolFacts:
    row = await connection.fetchrow(*_sql.overview(limit=_COUNTED_TASKS))
    assert row is not None, "there is always a leader's row"
    leader = row["holder"] if row["has_leader"] else None
    backup = BackupStatus(
        row["finished_at"], row["size_bytes"], row["missing_blobs"], row["is_backing_up"]
    )
    nodes = await connection.fetch(*_sql.nodes())
    alerts = await connection.fetch(*_sql.current_alerts())
    return PoolFacts(
        at=row["at"],
        schema_version=row["schema_version"],
        instances=await _instances(connection, leader),
        term=row["term"],
        waiting_tasks=row["waiting_tasks"],
        oldest_waiting_at=row["oldest_waiting_at"],
        running_attempts=row["running_attempts"],
        ended=await _ended(connection),
        nodes=_sum_by(nodes, "state"),
        cordoned_nodes=row["cordoned_nodes"],
        node_versions=_sum_by(nodes, "version"),
        devices=await count_devices(connection),
        database_bytes=row["database_bytes"],
        blob_bytes=row["blob_bytes"],
        backup=backup,
        firing_alerts=_alerts_in(alerts, AlertState.FIRING),
        pending_alerts=_alerts_in(alerts, AlertState.PENDING),
    )


def _alerts_in(rows: list[asyncpg.Record], state: AlertState) -> dict[str, int]:
    return {row["name"]: row["alerts"] for row in rows if row["state"] == state}


async def read_history(connection: Connection, hours: int, now: datetime) -> PoolHistory:
    """Throughput and latency of the tasks that ended in the last hours."""
    within = timedelta(hours=hours)
    step = timedelta(minutes=max(1, round(within / _HISTORY_STEPS / timedelta(minutes=1))))
    rows = await connection.fetch(*_sql.history(within=within, step=step, limit=_HISTORY_TASKS))
    points = [
        HistoryPoint(
            *(row["at"], row["succeeded"], row["failed"], row["stopped"]),
            *_seconds(row["waits"]),
            *_seconds(row["runs"]),
        )
        for row in rows
    ]
    counted = sum(point.succeeded + point.failed + point.stopped for point in points)
    is_complete = counted < _HISTORY_TASKS
    return PoolHistory(now - within, now, int(step.total_seconds()), points, is_complete)


def _seconds(percentiles: list[float | None] | None) -> list[float | None]:
    """Rounded to milliseconds; None if no task of the step has started."""
    percentile_row = percentiles or [None, None]
    return [None if value is None else round(float(value), 3) for value in percentile_row]


async def read_ledger_sum(connection: Connection) -> int | None:
    """None if adding up takes too long; the caller's transaction is over then."""
    await limit_statement_time(connection, _LEDGER_TIMEOUT)
    try:
        return await table_copy.ledger_sum(connection)
    except asyncpg.QueryCanceledError:
        return None


async def limit_statement_time(connection: Connection, timeout: str) -> None:
    """PostgreSQL cancels a statement of this transaction that takes longer."""
    await connection.execute(*_sql.limit_time(timeout=timeout))


async def _instances(connection: Connection, leader: str | None) -> list[InstanceView]:
    rows = await connection.fetch(*_sql.instances(seen_within=_SEEN_WITHIN))
    return [
        InstanceView(
            *(row["id"], row["version"], row["started_at"], row["seen_at"]), row["id"] == leader
        )
        for row in rows
    ]


async def _ended(connection: Connection) -> list[EndCount]:
    rows = await connection.fetch(*_sql.ended(within=RECENT))
    return [
        EndCount(
            TaskState(row["state"]),
            EndReason(row["reason"]) if row["reason"] else None,
            row["tasks"],
        )
        for row in rows
    ]


def _sum_by(rows: list[asyncpg.Record], column: str) -> dict[str, int]:
    sums: dict[str, int] = {}
    for row in rows:
        sums[row[column]] = sums.get(row[column], 0) + row["nodes"]
    return sums
