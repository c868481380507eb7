"""The secret that all instances of one server share, from which their keys are derived."""

from potluck.store.database import Connection
from potluck.store.sealing.vault import Vault, sealed_with
from potluck.store.sql_files import load

_sql = load("installation")
_PLACE = ("installation", "sealed_secret", "only")


async def is_sealed(connection: Connection) -> bool:
    """Whether a key has sealed anything here; until then any key is acceptable."""
    sealed: bool = await connection.fetchval(*_sql.is_sealed())
    return sealed


async def secret(connection: Connection, vault: Vault, offered: bytes) -> bytes:
    """The offered secret, unless another instance was first. A legacy clear one is sealed."""
    await connection.execute(*_sql.offer_secret(sealed_secret=vault.seal(*_PLACE, offered)))
    row = await connection.fetchrow(*_sql.lock())
    if row["sealed_secret"] is not None:
        return vault.open(*_PLACE, row["sealed_secret"])
    legacy: bytes = row["lease_secret"]
    await connection.execute(*_sql.seal_secret(sealed_secret=vault.seal(*_PLACE, legacy)))
    return legacy


async def lock(connection: Connection) -> bytes:
    """Locks the secret; returns the id of the key that seals it."""
    row = await connection.fetchrow(*_sql.lock())
    return sealed_with(row["sealed_secret"])


async def reseal_secret(connection: Connection, vault: Vault) -> None:
    """Seals it with the current key. The caller holds the lock."""
    row = await connection.fetchrow(*_sql.lock())
    plain = vault.open(*_PLACE, row["sealed_secret"])
    await connection.execute(*_sql.seal_secret(sealed_secret=vault.seal(*_PLACE, plain)))
