"""Nonces that a signature has used up. In PostgreSQL, so that a replay never finds a gap."""

from datetime import datetime, timedelta

from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("nonces")


async def use(connection: Connection, nonce: str, expires_at: datetime) -> bool:
    """Whether it was unused until now."""
    return await connection.fetchval(_sql.use, nonce, expires_at) is not None


async def forget(connection: Connection, over_for: timedelta, most: int) -> int:
    """The nonces themselves say that they are too old; the margin is for clocks that differ."""
    gone: int = await connection.fetchval(_sql.forget, over_for, most)
    return gone
