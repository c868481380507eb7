"""The guarded assign: applies planned assignments that still hold, and no others."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import asyncpg
from msgspec import Struct

from potluck.decide.ahead import GrantAhead
from potluck.decide.types import Assignment
from potluck.model.ids import AccountId, AttemptId, TaskId
from potluck.model.task import Limits
from potluck.store.database import Connection
from potluck.store.scheduler.leader import Leadership, TermOver
from potluck.store.sql_files import bind_many, load

_sql = load("assign")


class PlannedAttempt(Struct, frozen=True):
    """An assignment, and the attempt that it becomes."""

    attempt_id: AttemptId
    assignment: Assignment


class Assigned(Struct, frozen=True):
    """An assignment that was applied."""

    attempt_id: AttemptId
    assignment: Assignment
    consumer_id: AccountId
    provider_id: AccountId


async def assign(
    connection: Connection,
    planned: Sequence[PlannedAttempt],
    leadership: Leadership,
    fetch_seconds: float,
    fee_basis_points: int = 0,
) -> list[Assigned]:
    """Applies those that hold, with their events. The caller adds the holds in this transaction."""
    await _lock(connection, leadership, [plan.assignment for plan in planned])
    calls = [_values(plan, leadership, fetch_seconds, fee_basis_points) for plan in planned]
    rows = {row["id"]: row for row in await connection.fetchmany(*bind_many(_sql.assign, calls))}
    return [
        Assigned(plan.attempt_id, plan.assignment, row["consumer_id"], row["provider_id"])
        for plan in planned
        if (row := rows.get(plan.attempt_id)) is not None
    ]


class NewGrant(Struct, frozen=True):
    """A task that is granted ahead, and the attempt that it becomes."""

    task_id: TaskId
    attempt_id: AttemptId
    limits: Limits


class GrantedAhead(Struct, frozen=True):
    attempt_id: AttemptId
    task_id: TaskId
    consumer_id: AccountId


async def assign_ahead(
    connection: Connection,
    grant: GrantAhead,
    new_id: Callable[[], AttemptId],
    leadership: Leadership,
    version: str,
    fetch_seconds: float,
    fee_basis_points: int = 0,
) -> list[GrantedAhead]:
    """Grants those that still may be, behind the attempt that holds the share; with their events.

    Nothing if an instance of another version runs. The caller adds the holds in this transaction.
    """
    # A line goes by the ids of its attempts.
    ids = sorted(new_id() for _ in grant.tasks)
    grants = [
        NewGrant(task.id, attempt_id, task.limits)
        for task, attempt_id in zip(grant.tasks, ids, strict=True)
    ]
    rows = await connection.fetch(
        *_sql.assign_ahead(
            leadership=leadership,
            version=version,
            grants=grants,
            node_id=grant.holder.node_id,
            line=grant.holder.line or grant.holder.id,
            price_micro_per_hour=grant.holder.price_micro_per_hour,
            hold_micro=grant.hold_micro,
            fetch_timeout=timedelta(seconds=fetch_seconds),
            fee_basis_points=fee_basis_points,
        )
    )
    return [GrantedAhead(row["id"], row["task_id"], row["consumer_id"]) for row in rows]


async def _lock(
    connection: Connection, leadership: Leadership, assignments: Sequence[Assignment]
) -> None:
    """Locks the rows of all assignments kind by kind, in the common lock order."""
    is_current = await connection.fetchval(
        *_sql.lock(
            leadership=leadership,
            task_ids=list({assignment.task_id for assignment in assignments}),
            node_ids=list({assignment.node_id for assignment in assignments}),
            device_ids=list(
                {share.device_id for assignment in assignments for share in assignment.shares}
            ),
        )
    )
    if not is_current:
        raise TermOver


def _values(
    planned: PlannedAttempt, leadership: Leadership, fetch_seconds: float, fee_basis_points: int
) -> dict[str, Any]:
    assignment = planned.assignment
    items = assignment.items
    return {
        "attempt_id": planned.attempt_id,
        "leadership": leadership,
        "assignment": assignment,
        "shares": assignment.shares,
        # The limit is per item.
        "run_seconds_limit": assignment.limits.run_seconds * (1 if items is None else len(items)),
        "fetch_timeout": timedelta(seconds=fetch_seconds),
        "fee_basis_points": fee_basis_points,
        "items": None if items is None else asyncpg.Range(items.start, items.end),
    }
