"""Changes the encryption key while everything runs.

A new key goes to its place first, in front of the old ones, and only then seals anything; so
whoever meets what it sealed finds it there. What older keys sealed is rewritten in small batches,
call by call. A key leaves the file when nothing is sealed with it any more, and not before the
rotation after the one that replaced it.
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

# So that one call takes a moment, however much there is to do.
_ROWS_PER_CALL = 20 * sealed_values.BATCH


async def begin(services: Services, actor: AccountId) -> RotationProgress:
    """A new key, current from now on."""
    place = services.vault.place
    if not isinstance(place, KeyFile):
        raise Conflict(
            f"The server does not keep its key itself: it is {place.name}.",
            "Put a new key in front of the old one there, restart every instance, then rewrite:"
            " `potluck admin rotate-key --rewrite`.",
        )
    async with services.database.transaction() as connection:
        await installation.lock(connection)  # one rotation after the other
        ring, needed = place.read(), await sealed_values.keys_in_use(connection)
        older = [key for key in ring.keys[1:] if key_id(key) in needed]
        place.put([new_key(ring), ring.keys[0], *older])
    return await rewrite(services, actor, rows=0)


async def rewrite(
    services: Services, actor: AccountId, rows: int = _ROWS_PER_CALL
) -> RotationProgress:
    """Some of what older keys sealed, and how much is left. Any number may do it at once.

    What does not open is passed over, so that it keeps nothing else from being rewritten; its key
    stays where it is, as long as there is such a row.
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
            "sealed values that do not open",
            rows=[f"{each.table}.{each.column} {each.row}" for each in unreadable],
        )
    async with services.database.transaction() as connection:
        older, lost = await _older(connection, vault)
        left = await sealed_values.count_of(connection, older)
        hopeless = await sealed_values.count_of(connection, lost) + len(unreadable)
    return RotationProgress(vault.key_id, rewritten, max(0, left - len(unreadable)), hopeless)


async def _reseal_secret(services: Services, actor: AccountId) -> int:
    """The secret comes first: with it the new key is in use, and the record says so."""
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
    """The keys of what can be rewritten, and those that are named somewhere and are not there."""
    used = await sealed_values.keys_in_use(connection)
    lost = vault.lacks(used)
    return used - lost - {vault.ring.current}, lost
