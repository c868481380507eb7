"""What all instances of one server share: the secret that their own keys are derived from."""

from potluck.store.database import Connection
from potluck.store.sealing.vault import Vault, sealed_with
from potluck.store.sql_files import load

_sql = load("installation")
_PLACE = ("installation", "sealed_secret", "only")


async def is_sealed(connection: Connection) -> bool:
    """Whether a key has sealed anything here; until then any key will do."""
    sealed: bool = await connection.fetchval(_sql.is_sealed)
    return sealed


async def secret(connection: Connection, vault: Vault, offered: bytes) -> bytes:
    """The offered one, unless another instance came first. One from before the vault is sealed."""
    await connection.execute(_sql.offer_secret, vault.seal(*_PLACE, offered))
    row = await connection.fetchrow(_sql.lock)
    if row["sealed_secret"] is not None:
        return vault.open(*_PLACE, row["sealed_secret"])
    found: bytes = row["lease_secret"]
    await connection.execute(_sql.seal_secret, vault.seal(*_PLACE, found))
    return found


async def lock(connection: Connection) -> bytes:
    """The id of the key that seals the secret, which nobody changes until this transaction ends."""
    row = await connection.fetchrow(_sql.lock)
    return sealed_with(row["sealed_secret"])


async def reseal_secret(connection: Connection, vault: Vault) -> None:
    """With the current key. The caller holds the lock."""
    row = await connection.fetchrow(_sql.lock)
    plain = vault.open(*_PLACE, row["sealed_secret"])
    await connection.execute(_sql.seal_secret, vault.seal(*_PLACE, plain))
