"""Dependencies between tasks, and the outcome of those that have ended."""

from collections.abc import Sequence

from msgspec import Struct

from potluck.model.ids import AccountId, TaskId
from potluck.model.task import TaskState
from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("dependencies")


class EndedDependency(Struct, frozen=True):
    """A dependency that has ended, and its dependent task."""

    task_id: TaskId
    after_id: TaskId
    outcome: TaskState


async def lock_states(
    connection: Connection, task_ids: Sequence[TaskId], account_id: AccountId
) -> dict[TaskId, TaskState]:
    """The states of the account's tasks; they cannot change until the transaction ends."""
    if not task_ids:
        return {}
    rows = await connection.fetch(*_sql.hold_after(task_ids=task_ids, account_id=account_id))
    return {row["id"]: TaskState(row["state"]) for row in rows}


async def read_states(
    connection: Connection, task_ids: Sequence[TaskId], account_id: AccountId
) -> dict[TaskId, TaskState]:
    """The current states, without a lock."""
    if not task_ids:
        return {}
    rows = await connection.fetch(*_sql.states(task_ids=task_ids, account_id=account_id))
    return {TaskId(row["id"]): TaskState(row["state"]) for row in rows}


async def insert(connection: Connection, pairs: Sequence[tuple[TaskId, TaskId]]) -> None:
    """Pairs of a task and one that it waits for."""
    if pairs:
        task_ids, after_ids = zip(*pairs, strict=True)
        await connection.execute(*_sql.insert(task_ids=task_ids, after_ids=after_ids))


async def list_decided(connection: Connection, most: int) -> list[EndedDependency]:
    rows = await connection.fetch(*_sql.decided(limit=most))
    return [
        EndedDependency(row["task_id"], row["after_id"], TaskState(row["outcome"])) for row in rows
    ]


async def list_transitive(
    connection: Connection, task_ids: Sequence[TaskId], most: int
) -> list[EndedDependency]:
    """The direct and indirect dependents of tasks that are about to be cancelled."""
    rows = await connection.fetch(*_sql.fallen(task_ids=task_ids, limit=most)) if task_ids else []
    return [EndedDependency(row["task_id"], row["after_id"], TaskState.CANCELLED) for row in rows]


async def release(connection: Connection, ended: Sequence[EndedDependency]) -> None:
    """Removes the dependencies. Locks the waiting tasks first, in id order."""
    await connection.execute(*_sql.lock_tasks(task_ids=list({item.task_id for item in ended})))
    await connection.execute(*_sql.release(dependencies=ended))
    await connection.execute(*_sql.forget(after_ids=list({item.after_id for item in ended})))
