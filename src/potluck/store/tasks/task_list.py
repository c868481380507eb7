"""Lists an account's tasks: filtered, in pages, and fast for any number of tasks.

A task's id begins with its creation time, so a time is a bound on the id, and the last id of a page
is the cursor of the next.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from potluck.model.ids import AccountId, TaskId, first_id_at
from potluck.model.task import EndReason, TaskState
from potluck.model.terms import TaskKind
from potluck.store.database import Connection
from potluck.store.sql_files import load
from potluck.wire.admin import PoolTask

_sql = load("listing")
# All values of the column.
KINDS = tuple(TaskKind)
_FIRST, _AFTER_ALL = "task_", "task_~"
# Tasks whose names one page of a search compares: it takes a few milliseconds.
MOST_COMPARED = 2_000


class TaskFilter(Struct, frozen=True):
    """Conditions for listing a task; an omitted one matches all."""

    states: tuple[TaskState, ...] = ()  # one of these
    name: str | None = None
    find: str | None = None  # a part of the name, in any case
    kind: str | None = None
    since: datetime | None = None  # submitted then or later
    until: datetime | None = None  # submitted before


async def pool_page(
    connection: Connection,
    account_id: AccountId | None,
    selection: TaskFilter,
    before: TaskId | None,
    limit: int,
) -> list[PoolTask]:
    """Tasks of one account or of all, newest first, as admins see them; names are not compared."""
    query = _query(account_id, replace(selection, name=None, find=None), before, limit)
    ids = [row["id"] for row in await connection.fetch(*query)]
    rows = await connection.fetch(*_sql.pool_tasks(task_ids=ids))
    return [_pool_task(row) for row in rows]


def _pool_task(row: Any) -> PoolTask:
    return PoolTask(
        *(row["id"], row["account_id"], row["address"], TaskKind(row["kind"])),
        *(TaskState(row["state"]), row["created_at"], row["started_at"], row["finished_at"]),
        None if row["reason"] is None else EndReason(row["reason"]),
        *(row["charge_micro"], row["items"], row["node_ids"], row["label"]),
    )


class IdPage(Struct, frozen=True):
    """Ids, newest first. With a `next_id`, older ones than that may match too."""

    ids: list[TaskId]
    next_id: TaskId | None = None


async def page(
    connection: Connection,
    account_id: AccountId,
    selection: TaskFilter,
    before: TaskId | None,
    limit: int,
) -> IdPage:
    """Tasks older than `before`. A page of a search may have fewer than the limit, or none, though
    older tasks match: it compares the names of a bounded number of tasks."""
    if selection.find is not None and selection.name is None:
        return await _search(connection, account_id, selection, before, limit)
    rows = await connection.fetch(*_query(account_id, selection, before, limit))
    ids = [TaskId(row["id"]) for row in rows]
    return IdPage(ids, ids[-1] if len(ids) == limit else None)


async def _search(
    connection: Connection,
    account_id: AccountId,
    selection: TaskFilter,
    before: TaskId | None,
    limit: int,
) -> IdPage:
    bounds = _bounds(account_id, selection, before, MOST_COMPARED)
    query = _sql.newest_like(**bounds, part=selection.find, most_found=limit)
    row = await connection.fetchrow(*query)
    assert row is not None, "the statement has one row"
    ids = [TaskId(task_id) for task_id in row["ids"]]
    if len(ids) == limit:
        return IdPage(ids, ids[-1])
    return IdPage(ids, row["last_id"] if row["compared"] == MOST_COMPARED else None)


async def count(
    connection: Connection, account_id: AccountId, selection: TaskFilter, most: int
) -> tuple[dict[TaskState, int], list[TaskState]]:
    """By state, each at most this number, and the states that may have more.

    The states of the selection are left out of account. With a part of the name, of the newest
    tasks of each state and kind.
    """
    if selection.find is not None and selection.name is None:
        return await _count_found(connection, account_id, selection)
    query = _sql.count_by_state if selection.name is None else _sql.count_by_name
    selection = replace(selection, states=())
    rows = await connection.fetch(*query(**_bounds(account_id, selection, None, most)))
    counts = {state: min(tasks, most) for state, tasks in _sum_by_state(rows).items()}
    return counts, [state for state, tasks in counts.items() if tasks == most]


async def _count_found(
    connection: Connection, account_id: AccountId, selection: TaskFilter
) -> tuple[dict[TaskState, int], list[TaskState]]:
    selection = replace(selection, states=())
    bounds = _bounds(account_id, selection, None, MOST_COMPARED)
    rows = await connection.fetch(*_sql.count_like(**bounds, part=selection.find))
    capped = {_state(row) for row in rows if row["compared"] == MOST_COMPARED}
    return _sum_by_state(rows), sorted(capped)


def _sum_by_state(rows: Iterable[Any]) -> dict[TaskState, int]:
    counts = dict.fromkeys(TaskState, 0)
    for row in rows:
        counts[_state(row)] += row["tasks"]
    return counts


def _state(row: Any) -> TaskState:
    """Of a key: account, state and kind."""
    return TaskState(row["key"].split("/")[-2])


def _query(
    account_id: AccountId | None, selection: TaskFilter, before: TaskId | None, limit: int
) -> tuple[object, ...]:
    """The statement and its values; without an account, of all."""
    query = (
        _sql.newest_in_pool
        if account_id is None
        else (_sql.newest_by_state if selection.name is None else _sql.newest_by_name)
    )
    return query(**_bounds(account_id, selection, before, limit))


def _bounds(
    account_id: AccountId | None, selection: TaskFilter, before: TaskId | None, limit: int
) -> dict[str, Any]:
    """Each state and kind of the account is its own key."""
    first = _FIRST if selection.since is None else first_id_at("task", selection.since)
    until = _AFTER_ALL if selection.until is None else first_id_at("task", selection.until)
    # Each state once: a repeated one would show its tasks twice.
    states = dict.fromkeys(selection.states or TaskState)
    kinds = [selection.kind] if selection.kind else KINDS
    ends = [f"{state}/{kind}" for state in states for kind in kinds]
    start = [part for part in (account_id, selection.name) if part is not None]
    return {
        "first_id": first,
        "before_id": min(until, before or until),
        "limit": limit,
        "keys": ["/".join([*start, end]) for end in ends],
    }
