"""Opens the vault when the server starts, and sees to it that it is the right one.

A key that does not fit would split the database into two halves that no key opens together, so
the server starts with the keys of all that is sealed, or not at all.
"""

import secrets

from potluck.model.error import BadSettings, Unopenable
from potluck.server.derived_keys import Keys, derive
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
    keys = derive(await _secret(database, vault))
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
    """Of another life of the server, that is; whoever changes keys just now holds the lock."""
    if isinstance(place, KeyFile):
        async with database.transaction() as connection:
            await installation.lock(connection)
            place.remove_drafts()


async def _check_keys(database: Database, vault: Vault) -> None:
    async with database.transaction() as connection:
        missing = vault.lacks(await sealed_values.keys_in_use(connection))
    if missing:
        ids = ", ".join(sorted(key.hex() for key in missing))
        raise _wrong_key(vault.place, f"Tasks are sealed with {ids}, which is not there.")


async def _seal_what_is_clear(database: Database, vault: Vault, request_key: bytes) -> None:
    """What a version without a vault wrote; nothing, at every start but one."""
    while True:
        async with database.transaction() as connection:
            if not await sealed_values.seal_clear(connection, vault, request_key):
                return


def _no_file(place: KeyFile) -> BadSettings:
    return BadSettings(
        f"The database is sealed, and its key is not here: there is no {place.path}.",
        "Put it there from the backup. If other instances run, let all of them use one and the"
        " same file, shared (--encryption-key-file): a copy would lack the next key.",
    )


def _wrong_key(place: KeyPlace, why: str) -> BadSettings:
    return BadSettings(
        f"The encryption key in {place.name} is not the one of this database. {why}",
        "Use the key of this installation: from the backup, or the same file that its other"
        " instances use, shared and not copied.",
    )
