"""Rotates the encryption key while the server runs.

A new key is stored in front of the old ones before it encrypts anything, so that every instance can
find it. Older values are re-encrypted in small batches, one per call. A key is removed when nothing
uses it any more, and not before the rotation after the one that replaced it.
"""

import structlog

from potluck.model.audit import AuditKind
from potluck.model.error import Conflict
from potluck.model.ids import AccountId
from potluck.server.encryption.key_sources import KeyFile
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.identity import audit
from potluck.store.sealing import installation, sealed_values
from potluck.store.sealing.sealed_values import SealedPlace
from potluck.store.sealing.vault import Vault, key_id, new_key
from potluck.wire.identity import RotationProgress

log = structlog.get_logger()

# Bounds the time of one call.
_ROWS_PER_CALL = 20 * sealed_values.BATCH


async def begin(services: Services, actor: AccountId) -> RotationProgress:
    """Adds a new key and makes it current."""
    place = services.vault.place
    if not isinstance(place, KeyFile):
        raise Conflict(
            f"The server cannot change its key: it comes from {place.name}.",
            "Put a new key in front of the old one there, restart every instance, then re-encrypt:"
            " `potluck admin rotate-key --rewrite`.",
        )
    async with services.database.transaction() as connection:
        await installation.lock(connection)  # one rotation at a time
        ring, needed = place.read(), await sealed_values.keys_in_use(connection)
        older = [key for key in ring.keys[1:] if key_id(key) in needed]
        place.put([new_key(ring), ring.keys[0], *older])
    return await rewrite(services, actor, rows=0)


async def rewrite(
    services: Services, actor: AccountId, rows: int = _ROWS_PER_CALL
) -> RotationProgress:
    """Re-encrypts a batch of older values, and counts the rest. Safe to run concurrently.

    Values that do not decrypt are skipped, so that they do not block the others; their key stays as
    long as such a row exists.
    """
    vault, rewritten = services.vault, await _reseal_secret(services, actor)
    unreadable: list[SealedPlace] = []
    while rewritten < rows:
        async with services.database.transaction() as connection:
            older, _ = await _older(connection, vault)
            batch = await sealed_values.rewrite(connection, vault, older, unreadable)
        rewritten += batch.rewritten
        unreadable += batch.unreadable
        if not (batch.rewritten or batch.unreadable):
            break
    if unreadable:
        log.error(
            "encrypted values that do not decrypt",
            rows=[f"{cell.table}.{cell.column} {cell.row}" for cell in unreadable],
        )
    async with services.database.transaction() as connection:
        older, lost = await _older(connection, vault)
        left = await sealed_values.count_sealed(connection, older)
        hopeless = await sealed_values.count_sealed(connection, lost) + len(unreadable)
    return RotationProgress(vault.key_id, rewritten, max(0, left - len(unreadable)), hopeless)


async def _reseal_secret(services: Services, actor: AccountId) -> int:
    """The secret comes first: it puts the new key to use, and the audit log records it."""
    vault = services.vault
    async with services.database.transaction() as connection:
        before = await installation.lock(connection)
        vault.follow()
        if before == vault.ring.current:
            return 0
        await installation.reseal_secret(connection, vault)
        changed = {"before": before.hex(), "after": vault.key_id}
        kind = AuditKind.ENCRYPTION_KEY_ROTATED
        await audit.append(connection, services.keys.audit, kind, actor, vault.key_id, changed)
    return 1


async def _older(connection: Connection, vault: Vault) -> tuple[frozenset[bytes], frozenset[bytes]]:
    """The keys of values that can be re-encrypted, and the keys that are missing."""
    used = await sealed_values.keys_in_use(connection)
    lost = vault.lacks(used)
    return used - lost - {vault.ring.current}, lost
