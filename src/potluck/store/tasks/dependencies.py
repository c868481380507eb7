"""Which task waits for which, and how those ended that somebody waits for."""

from collections.abc import Sequence

from msgspec import Struct

from potluck.model.ids import AccountId, TaskId
from potluck.model.task import TaskState
from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("dependencies")


class Decided(Struct, frozen=True):
    """A task that was waited for has ended so."""

    task_id: TaskId
    after_id: TaskId
    outcome: TaskState


async def hold_after(
    connection: Connection, task_ids: Sequence[TaskId], account_id: AccountId
) -> dict[TaskId, TaskState]:
    """The states of those that are the account's; they stay so until the transaction ends."""
    if not task_ids:
        return {}
    rows = await connection.fetch(_sql.hold_after, task_ids, account_id)
    return {TaskId(row["id"]): TaskState(row["state"]) for row in rows}


async def states(
    connection: Connection, task_ids: Sequence[TaskId], account_id: AccountId
) -> dict[TaskId, TaskState]:
    """The same at this moment; nobody waits for it."""
    if not task_ids:
        return {}
    rows = await connection.fetch(_sql.states, task_ids, account_id)
    return {TaskId(row["id"]): TaskState(row["state"]) for row in rows}


async def insert(connection: Connection, task_id: TaskId, after: Sequence[TaskId]) -> None:
    await connection.execute(_sql.insert, task_id, after)


async def decided(connection: Connection, most: int) -> list[Decided]:
    rows = await connection.fetch(_sql.decided, most)
    return [Decided(row["task_id"], row["after_id"], TaskState(row["outcome"])) for row in rows]


async def fallen(connection: Connection, task_ids: Sequence[TaskId], most: int) -> list[Decided]:
    """What waits for these, which are about to be called off, and for what waits for them."""
    rows = await connection.fetch(_sql.fallen, task_ids, most) if task_ids else []
    return [Decided(row["task_id"], row["after_id"], TaskState.CANCELLED) for row in rows]


async def release(connection: Connection, told: Sequence[Decided]) -> None:
    """They are waited for no more. The waiting tasks are locked first, in id order."""
    await connection.execute(_sql.lock_tasks, list({each.task_id for each in told}))
    await connection.execute(
        _sql.release, [each.task_id for each in told], [each.after_id for each in told]
    )
    await connection.execute(_sql.forget, list({each.after_id for each in told}))
