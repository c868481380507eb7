"""The record of backups, and how a running one keeps the bytes that it needs.

Bytes are removed only while no backup runs. A backup announces itself and renews that while it
runs; a killed one stops guarding after a minute.
"""

from datetime import datetime, timedelta

from msgspec import Struct

from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("backups")

# Much longer than the time between two renewals.
GUARD = timedelta(seconds=60)
# Any constant, the same on every instance.
_LOCK = 5_190_437_702_115_268_093


class BackupResult(Struct, frozen=True):
    size_bytes: int
    new_bytes: int  # of these, what an earlier backup in the same place did not have
    blobs: int
    missing_blobs: int  # that the database names and the store does not have


async def begin(connection: Connection, backup_id: str, is_encrypted: bool) -> datetime:
    """From now on no bytes are removed. A snapshot taken after the commit is complete. Returns the
    time of its start."""
    await connection.execute(*_sql.wait_for_removals(lock=_LOCK))
    started_at: datetime = await connection.fetchval(
        *_sql.begin(backup_id=backup_id, is_encrypted=is_encrypted, guard=GUARD)
    )
    return started_at


async def read_time(connection: Connection) -> datetime:
    at: datetime = await connection.fetchval(*_sql.now())
    return at


async def renew(connection: Connection, backup_id: str) -> bool:
    """False if it is no longer known."""
    renewed = await connection.fetchval(*_sql.renew(backup_id=backup_id, guard=GUARD))
    return renewed is not None


async def finish(connection: Connection, backup_id: str, result: BackupResult) -> None:
    await connection.execute(*_sql.finish(backup_id=backup_id, result=result))


async def give_up(connection: Connection, backup_id: str) -> None:
    await connection.execute(*_sql.give_up(backup_id=backup_id))


async def add_restored(
    connection: Connection,
    backup_id: str,
    is_encrypted: bool,
    started_at: datetime,
    finished_at: datetime,
) -> None:
    """Records the backup from which this database was restored."""
    await connection.execute(
        *_sql.add_restored(
            backup_id=backup_id,
            is_encrypted=is_encrypted,
            started_at=started_at,
            finished_at=finished_at,
        )
    )


async def may_remove(connection: Connection) -> bool:
    """Whether this transaction may remove bytes, or rows that name them: no backup runs."""
    await connection.execute(*_sql.lock_removals(lock=_LOCK))
    is_guarding: bool = await connection.fetchval(*_sql.is_guarding())
    return not is_guarding


async def latest_finished_at(connection: Connection) -> datetime | None:
    """When the newest complete backup was finished; None if there is none."""
    at: datetime | None = await connection.fetchval(*_sql.latest_finished_at())
    return at


async def delete_old(connection: Connection, retention: timedelta, most: int) -> int:
    gone: int = await connection.fetchval(*_sql.delete_old(older_than=retention, limit=most))
    return gone
