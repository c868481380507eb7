"""The guarded assign: what was planned comes true if it still holds, and changes nothing if not."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import asyncpg
from msgspec import Struct

from potluck.decide.types import Assignment
from potluck.model.ids import AccountId, AttemptId
from potluck.store.database import Connection
from potluck.store.scheduler.leader import Leadership, TermOver
from potluck.store.sql_files import bind_many, load

_sql = load("assign")


class PlannedAttempt(Struct, frozen=True):
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
    planned: Sequence[PlannedAttempt],
    leadership: Leadership,
    fetch_seconds: float,
) -> list[Assigned]:
    """Those that hold; they are told of. The holds in the ledger follow in this transaction."""
    await _lock(connection, leadership, [each.assignment for each in planned])
    calls = [_values(each, leadership, fetch_seconds) for each in planned]
    found = {row["id"]: row for row in await connection.fetchmany(*bind_many(_sql.assign, calls))}
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
        *_sql.lock(
            leadership=leadership,
            task_ids=list({each.task_id for each in assignments}),
            node_ids=list({each.node_id for each in assignments}),
            device_ids=list({share.device_id for each in assignments for share in each.shares}),
        )
    )
    if not holds:
        raise TermOver


def _values(
    planned: PlannedAttempt, leadership: Leadership, fetch_seconds: float
) -> dict[str, Any]:
    assignment = planned.assignment
    items = assignment.items
    return {
        "attempt_id": planned.attempt_id,
        "leadership": leadership,
        "assignment": assignment,
        "shares": assignment.shares,
        # The limit is for one item; a range has as many times that.
        "run_seconds_limit": assignment.limits.run_seconds * (1 if items is None else len(items)),
        "fetch_timeout": timedelta(seconds=fetch_seconds),
        "items": None if items is None else asyncpg.Range(items.start, items.end),
    }
