"""A consistent snapshot of the database for the invariant check: complete, or a part."""

import re
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from potluck.decide.invariants import (
    ArrayFact,
    AttemptFact,
    DeviceFact,
    InvariantSnapshot,
    NodeFact,
    PurseFact,
    Spans,
    TaskFact,
)
from potluck.model.task import EndReason, TaskState
from potluck.store.database import Connection
from potluck.store.sql_files import Query, load

_sql = load("invariant_snapshot")
_MAX_ENTRIES = 100_000
_SPAN = re.compile(r"\[(\d+),(\d+)\)")

Fact = TypeVar("Fact", bound=msgspec.Struct)


class SnapshotScope(Struct, frozen=True):
    """What to read. A node includes its devices."""

    task_ids: Sequence[str] = ()
    attempt_ids: Sequence[str] = ()
    node_ids: Sequence[str] = ()
    account_ids: Sequence[str] = ()


async def read_all(connection: Connection) -> InvariantSnapshot:
    """Reads everything. Must be the first statement: all parts come from one snapshot."""
    await connection.execute(*_sql.one_moment())
    scope = SnapshotScope(
        await _ids(connection, _sql.all_tasks),
        await _ids(connection, _sql.all_attempts),
        await _ids(connection, _sql.all_nodes),
        await _ids(connection, _sql.all_accounts),
    )
    snapshot = await with_histories(connection, await read_part(connection, scope))
    return replace(snapshot, entries_sum_micro=await read_entries_sum(connection))


async def read_entries_sum(connection: Connection) -> int:
    """Of the whole ledger, which takes a while if it is long."""
    entries_sum_micro: int = await connection.fetchval(*_sql.entries_sum())
    return entries_sum_micro


async def with_histories(connection: Connection, snapshot: InvariantSnapshot) -> InvariantSnapshot:
    """Adds the states that each task went through."""
    task_ids = [task.id for task in snapshot.tasks]
    rows = await connection.fetch(*_sql.histories(task_ids=task_ids)) if task_ids else []
    histories = {row["id"]: _history(row["states"]) for row in rows}
    tasks = (replace(task, history=histories.get(task.id, ())) for task in snapshot.tasks)
    return replace(snapshot, tasks=tuple(tasks))


async def sample(connection: Connection, scope: SnapshotScope) -> InvariantSnapshot:
    """Reads the named rows. Must be the first statement, as above.

    A balance is summed from all its entries: accounts with very many are left out, since the
    statement would time out.
    """
    await connection.execute(*_sql.one_moment())
    rows = await connection.fetch(*_sql.quick_to_add_up(part=scope, max_entries=_MAX_ENTRIES))
    account_ids = [row["id"] for row in rows]
    return await read_part(connection, replace(scope, account_ids=account_ids))


async def read_part(connection: Connection, scope: SnapshotScope) -> InvariantSnapshot:
    """Reads the named rows, each kind in its own statement."""
    return InvariantSnapshot(
        tasks=tuple(map(_task_fact, await _rows(connection, _sql.tasks, scope, scope.task_ids))),
        attempts=_facts(
            await _rows(connection, _sql.attempts, scope, scope.attempt_ids), AttemptFact
        ),
        nodes=_facts(await _rows(connection, _sql.nodes, scope, scope.node_ids), NodeFact),
        devices=_facts(await _rows(connection, _sql.devices, scope, scope.node_ids), DeviceFact),
        purses=_facts(await _rows(connection, _sql.purses, scope, scope.account_ids), PurseFact),
    )


async def _rows(
    connection: Connection, query: Query, scope: SnapshotScope, ids: Sequence[str]
) -> list[Any]:
    return await connection.fetch(*query(part=scope)) if ids else []


async def _ids(connection: Connection, query: Query) -> list[str]:
    return [row["id"] for row in await connection.fetch(*query())]


def _facts(rows: list[Any], kind: type[Fact]) -> tuple[Fact, ...]:
    return tuple(msgspec.convert(dict(row), kind, strict=False) for row in rows)


def _task_fact(row: Any) -> TaskFact:
    return TaskFact(
        row["id"],
        TaskState(row["state"]),
        None if row["reason"] is None else EndReason(row["reason"]),
        live=len(row["remaining"]),
        accepted=row["accepted"],
        waits_for=row["waits_for"],
        dependencies=row["dependencies"],
        array=None if row["items"] is None else _array(row),
    )


def _history(states: Sequence[str | None]) -> tuple[TaskState, ...] | None:
    """None for an incomplete history: old events did not include the state."""
    return None if None in states else tuple(TaskState(state) for state in states if state)


def _array(row: Any) -> ArrayFact:
    return ArrayFact(
        row["items"],
        row["allow_failures"],
        _spans(row["pending"]),
        tuple((item, item + 1) for item in row["failed"]),
        tuple(map(_spans, row["remaining"])),
        row["items_succeeded"],
        row["items_failed"],
        _spans(row["cancelled"]),
        row["is_open"],
    )


def _spans(text: str) -> Spans:
    """From the text of a multirange, such as `{[0,5),[7,9)}`."""
    return tuple((int(start), int(end)) for start, end in _SPAN.findall(text))
