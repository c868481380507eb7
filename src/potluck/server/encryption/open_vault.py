"""Opens the vault at the start of the server, and checks its keys.

With a wrong key, parts of the database would be encrypted under different keys. So the server
starts with the keys of everything that is encrypted, or not at all.
"""

import secrets

from potluck.model.error import BadSettings, Unopenable
from potluck.server.derived_keys import Keys, derive_keys
from potluck.server.encryption.key_sources import KeyFile, key_place
from potluck.server.settings import ServerSettings
from potluck.store.database import Database
from potluck.store.sealing import installation, sealed_values
from potluck.store.sealing.vault import KeyPlace, Vault


async def open_vault(settings: ServerSettings, database: Database) -> tuple[Vault, Keys]:
    """The vault, and the keys derived from the secret in it that all instances share."""
    place = key_place(settings)
    async with database.transaction() as connection:
        is_sealed = await installation.is_sealed(connection)
    if isinstance(place, KeyFile) and not place.exists():
        if is_sealed:
            raise _no_file(place)
        place.make()
    vault = Vault(place)
    keys = derive_keys(await _secret(database, vault))
    await _remove_drafts(database, place)
    await _check_keys(database, vault)
    await _seal_what_is_clear(database, vault, keys.request)
    return vault, keys


async def _secret(database: Database, vault: Vault) -> bytes:
    async with database.transaction() as connection:
        try:
            return await installation.secret(connection, vault, secrets.token_bytes(32))
        except Unopenable as error:
            raise _wrong_key(vault.place, error.detail) from error


async def _remove_drafts(database: Database, place: KeyPlace) -> None:
    """Of an earlier run; the lock excludes a rotation that is in progress."""
    if isinstance(place, KeyFile):
        async with database.transaction() as connection:
            await installation.lock(connection)
            place.remove_drafts()


async def _check_keys(database: Database, vault: Vault) -> None:
    async with database.transaction() as connection:
        missing = vault.lacks(await sealed_values.keys_in_use(connection))
    if missing:
        ids = ", ".join(sorted(key.hex() for key in missing))
        raise _wrong_key(vault.place, f"Tasks are encrypted with {ids}, which is missing.")


async def _seal_what_is_clear(database: Database, vault: Vault, request_key: bytes) -> None:
    """Encrypts values from a version without a vault; usually there are none."""
    while True:
        async with database.transaction() as connection:
            if not await sealed_values.seal_clear(connection, vault, request_key):
                return


def _no_file(place: KeyFile) -> BadSettings:
    return BadSettings(
        f"The database is encrypted, but its key file {place.path} does not exist.",
        "Copy it from where you keep it (a backup contains it only if it is encrypted). If other"
        " instances run, all of them must share one file (--encryption-key-file): a copy would"
        " lack the next key.",
    )


def _wrong_key(place: KeyPlace, why: str) -> BadSettings:
    return BadSettings(
        f"The encryption key in {place.name} does not belong to this database. {why}",
        "Use the key of this installation: from the backup, or the file that its other instances"
        " use, shared and not copied.",
    )
