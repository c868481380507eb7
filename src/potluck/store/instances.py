"""The servers that use this database, for display: nothing is decided by it."""

from datetime import timedelta

from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("instances")


async def mark_seen(connection: Connection, instance: str, version: str) -> None:
    await connection.execute(*_sql.mark_seen(instance=instance, version=version))


async def leave(connection: Connection, instance: str) -> None:
    await connection.execute(*_sql.leave(instance=instance))


async def delete_old(connection: Connection, retention: timedelta, most: int) -> int:
    gone: int = await connection.fetchval(*_sql.delete_old(older_than=retention, limit=most))
    return gone
