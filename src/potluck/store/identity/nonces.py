"""Used nonces. In PostgreSQL, so that a replay never finds a gap."""

from datetime import datetime, timedelta

from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("nonces")


async def use(connection: Connection, nonce: str, expires_at: datetime) -> bool:
    """Whether it was unused."""
    return await connection.fetchval(*_sql.use(nonce=nonce, expires_at=expires_at)) is not None


async def delete_expired(connection: Connection, over_for: timedelta, most: int) -> int:
    """Nonces carry their own expiry; the margin covers small differences between instances."""
    gone: int = await connection.fetchval(*_sql.forget(older_than=over_for, limit=most))
    return gone
