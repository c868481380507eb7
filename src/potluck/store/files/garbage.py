"""What nobody needs any more, step by step: see queries/collect.sql."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from potluck.model.ids import AccountId, AttemptId, TaskId
from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("collect")


async def to_clear(
    connection: Connection, kept: timedelta, most: int, but: Sequence[TaskId]
) -> list[TaskId]:
    """Tasks that ended so long ago that what they left goes, the oldest first, but for these."""
    return [row["id"] for row in await connection.fetch(_sql.to_clear, kept, most, but)]


async def attempts_with_logs(connection: Connection, task_id: TaskId) -> list[AttemptId]:
    return [row["id"] for row in await connection.fetch(_sql.attempts_with_logs, task_id)]


async def clear(connection: Connection, task_id: TaskId, most: int) -> bool:
    """Files, results, checkpoint and the count of its logs; what it was and cost stays.

    At most so many files and results; whether that was all of it.
    """
    if await connection.fetchval(_sql.lock_task, task_id) is None:
        return True
    await connection.execute(_sql.forget_results, task_id)
    results = await connection.fetchval(_sql.clear_results, task_id, most)
    files = await connection.fetchval(_sql.clear_files, task_id, most)
    if max(results, files) == most:
        return False
    await connection.execute(_sql.clear_logs, task_id)
    await connection.execute(_sql.clear_task, task_id)
    return True


async def forget_held(connection: Connection, kept: timedelta) -> None:
    """What attempts sent that ended so long ago without saying what for."""
    await connection.execute(_sql.forget_held, kept)


async def accounts_to_look_at(connection: Connection, most: int) -> list[AccountId]:
    rows = await connection.fetch(_sql.accounts_to_look_at, most)
    return [row["account_id"] for row in rows]


async def give_up(connection: Connection, account_id: AccountId, most: int) -> int:
    """Claims of the account that nothing needs; bytes that nobody has any more are marked.

    The caller has the account's use locked. Returns how many were looked at.
    """
    rows = await connection.fetch(_sql.look_at, account_id, most)
    hashes = [row["sha256"] for row in rows]
    gone = await connection.fetch(_sql.give_up, account_id, hashes)
    await connection.execute(_sql.mark, sorted(row["sha256"] for row in gone))
    return len(rows)


async def remove_marked(connection: Connection, wait: timedelta, most: int) -> list[str] | None:
    """Bytes that were marked so long ago and that still nobody has. Returns their objects.

    None if there was nothing to look at. Nobody can claim one of them while its row is locked, and
    who comes after that makes a new one, with an object of its own.
    """
    locked = [row["sha256"] for row in await connection.fetch(_sql.lock_marked, wait, most)]
    if not locked:
        return None
    await connection.execute(_sql.unmark, locked)
    return [row["object_key"] for row in await connection.fetch(_sql.remove, locked)]


async def ago(connection: Connection, wait: timedelta) -> datetime:
    """By the database's clock, as everything that is kept for a while."""
    then: datetime = await connection.fetchval(_sql.ago, wait)
    return then


async def known_objects(connection: Connection, keys: Sequence[str]) -> set[str]:
    rows = await connection.fetch(_sql.known_objects, keys)
    return {row["object_key"] for row in rows}
