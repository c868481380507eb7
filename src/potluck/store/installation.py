"""What all instances of one server share."""

from potluck.store.database import Connection
from potluck.store.named import load

_sql = load("installation")


async def lease_secret(connection: Connection, offered: bytes) -> bytes:
    """The secret that signs leases: the offered one, unless another instance came first."""
    await connection.execute(_sql.offer_lease_secret, offered)
    secret: bytes = await connection.fetchval(_sql.lease_secret)
    return secret
