"""Garbage collection, step by step: see queries/garbage.sql."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from potluck.model.ids import AccountId, AttemptId, TaskId
from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("garbage")


async def tasks_to_clear(
    connection: Connection, retention: timedelta, most: int, but: Sequence[TaskId]
) -> list[TaskId]:
    """Tasks whose retention time has passed, oldest first, except for `but`."""
    rows = await connection.fetch(
        *_sql.to_clear(older_than=retention, limit=most, excluded_ids=but)
    )
    return [row["id"] for row in rows]


async def attempts_with_logs(connection: Connection, task_id: TaskId) -> list[AttemptId]:
    return [row["id"] for row in await connection.fetch(*_sql.attempts_with_logs(task_id=task_id))]


async def clear_task(connection: Connection, task_id: TaskId, most: int) -> bool:
    """Deletes files, results, checkpoint, log counts and last lines, but not the task and its cost.

    At most `most` files, results and items; returns whether that was all.
    """
    if await connection.fetchval(*_sql.lock_task(task_id=task_id)) is None:
        return True
    await connection.execute(*_sql.forget_results(task_id=task_id))
    results = await connection.fetchval(*_sql.clear_results(task_id=task_id, limit=most))
    files = await connection.fetchval(*_sql.clear_files(task_id=task_id, limit=most))
    lines = await connection.fetchval(*_sql.clear_last_lines(task_id=task_id, limit=most))
    if max(results, files, lines) == most:
        return False
    await connection.execute(*_sql.clear_logs(task_id=task_id))
    await connection.execute(*_sql.clear_task(task_id=task_id))
    return True


async def delete_held(connection: Connection, retention: timedelta) -> None:
    """Blobs sent by attempts that ended this long ago without naming their purpose."""
    await connection.execute(*_sql.forget_held(older_than=retention))


async def accounts_to_check(connection: Connection, most: int) -> list[AccountId]:
    rows = await connection.fetch(*_sql.accounts_to_look_at(limit=most))
    return [row["account_id"] for row in rows]


async def release_claims(connection: Connection, account_id: AccountId, most: int) -> int:
    """Releases unneeded claims of the account; marks bytes without any claim.

    The caller has locked the account's use. Returns the number of claims checked.
    """
    rows = await connection.fetch(*_sql.look_at(account_id=account_id, limit=most))
    hashes = [row["sha256"] for row in rows]
    released = await connection.fetch(*_sql.give_up(account_id=account_id, hashes=hashes))
    await connection.execute(*_sql.mark(hashes=sorted(row["sha256"] for row in released)))
    return len(rows)


async def remove_marked(connection: Connection, wait: timedelta, most: int) -> list[str] | None:
    """Removes bytes that were marked this long ago and are still unclaimed. Returns their objects.

    None if there were none. A locked row cannot be claimed, and a later upload creates a new row
    with its own object.
    """
    rows = await connection.fetch(*_sql.lock_marked(older_than=wait, limit=most))
    locked = [row["sha256"] for row in rows]
    if not locked:
        return None
    await connection.execute(*_sql.unmark(hashes=locked))
    return [row["object_key"] for row in await connection.fetch(*_sql.remove(hashes=locked))]


async def time_before_now(connection: Connection, wait: timedelta) -> datetime:
    """By the database's clock, like all retention times."""
    then: datetime = await connection.fetchval(*_sql.ago(duration=wait))
    return then


async def find_known_objects(connection: Connection, keys: Sequence[str]) -> set[str]:
    rows = await connection.fetch(*_sql.known_objects(object_keys=keys))
    return {row["object_key"] for row in rows}
