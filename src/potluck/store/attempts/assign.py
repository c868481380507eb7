"""The guarded assign: what was planned comes true if it still holds, and changes nothing if not."""

from collections.abc import Sequence
from datetime import timedelta

import asyncpg
from msgspec import Struct

from potluck.decide.types import Assignment
from potluck.model.ids import AccountId, AttemptId
from potluck.store.database import Connection
from potluck.store.scheduler.leader import Leadership, TermOver
from potluck.store.sql_files import load

_sql = load("assign")


class Planned(Struct, frozen=True):
    """An assignment, and the attempt that it becomes."""

    attempt_id: AttemptId
    assignment: Assignment


class Assigned(Struct, frozen=True):
    """An assignment that holds."""

    attempt_id: AttemptId
    assignment: Assignment
    consumer_id: AccountId
    provider_id: AccountId


async def assign(
    connection: Connection,
    planned: Sequence[Planned],
    leadership: Leadership,
    fetch_seconds: float,
) -> list[Assigned]:
    """Those that hold; they are told of. The holds in the ledger follow in this transaction."""
    await _lock(connection, leadership, [each.assignment for each in planned])
    values = [_values(each, leadership, fetch_seconds) for each in planned]
    found = {row["id"]: row for row in await connection.fetchmany(_sql.assign, values)}
    return [
        Assigned(each.attempt_id, each.assignment, row["consumer_id"], row["provider_id"])
        for each in planned
        if (row := found.get(each.attempt_id)) is not None
    ]


async def _lock(
    connection: Connection, leadership: Leadership, assignments: Sequence[Assignment]
) -> None:
    """Several must take their rows kind by kind, in the order that all keep to."""
    holds = await connection.fetchval(
        _sql.lock,
        leadership.holder,
        leadership.term,
        list({each.task_id for each in assignments}),
        list({each.node_id for each in assignments}),
        list({share.device_id for each in assignments for share in each.shares}),
    )
    if not holds:
        raise TermOver


def _values(planned: Planned, leadership: Leadership, fetch_seconds: float) -> tuple[object, ...]:
    assignment = planned.assignment
    wanted, limits, items = assignment.requirements, assignment.limits, assignment.items
    return (
        planned.attempt_id,
        leadership.term,
        leadership.holder,
        assignment.task_id,
        assignment.node_id,
        [share.device_id for share in assignment.shares],
        [share.milli for share in assignment.shares],
        [share.memory_bytes for share in assignment.shares],
        wanted.cores,
        wanted.memory_bytes,
        wanted.disk_bytes,
        assignment.price_micro_per_hour,
        assignment.hold_micro,
        # The limit is for one item; a range has as many times that.
        limits.run_seconds * (1 if items is None else len(items)),
        limits.prepare_seconds,
        limits.log_bytes,
        timedelta(seconds=fetch_seconds),
        None if items is None else asyncpg.Range(items.start, items.end),
        wanted.shares_device,
    )
