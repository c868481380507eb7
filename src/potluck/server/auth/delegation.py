"""Verifies a wallet's delegation to a node key, and authorises the key.

A delegation names this server, is minutes old, expires within the limit, and its nonce can be used
once. So a leaked delegation, or one for another server, authorises nothing.
"""

from datetime import datetime

from msgspec.structs import replace

from potluck.model.account import Role
from potluck.model.audit import AuditKind
from potluck.model.error import InvalidInput, NotSignedIn
from potluck.server.auth import sign_in
from potluck.server.auth.caller import lacks_role
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.identity import audit, node_keys
from potluck.store.identity.accounts import Account
from potluck.wire.identity import Delegation, NodeKeyView
from potluck.wire.signing.address import checksummed
from potluck.wire.signing.delegation import NODE_SCOPES, digest


async def verify(services: Services, word: Delegation, wallet: str, now: datetime) -> Delegation:
    """Returns the delegation with normalised addresses if it is valid. Does not use the nonce."""
    spelled = _spelled(word)
    for is_so, complaint in (
        (spelled.wallet == wallet, "It is from another wallet, not yours."),
        (spelled.origin in services.origins, "It is for another server."),
        (spelled.scopes == NODE_SCOPES, "A node key has only the scope `node`."),
        (spelled.key != spelled.wallet, "A wallet cannot be its own node key."),
        (_is_new(services, spelled, now), "It is too old, or a clock is wrong."),
        (_ends_in_time(services, spelled, now), "It has expired, or its validity is too long."),
    ):
        if not is_so:
            raise _refused(complaint)
    if not await _is_signed(services, spelled):
        raise _refused("The signature is not the wallet's.")
    return spelled


async def take(connection: Connection, services: Services, word: Delegation, now: datetime) -> None:
    """Uses the nonce of a verified delegation and locks its key, always before the audit."""
    try:
        await sign_in.use_nonce(connection, services, word.nonce, now)
    except NotSignedIn as error:
        raise _refused("Its nonce is used, too old, or from another server.") from error
    await node_keys.lock(connection, word.key)


async def authorise(
    connection: Connection, services: Services, account: Account, word: Delegation, machine: str
) -> NodeKeyView:
    """Authorises the key for the account. `take` has run in this transaction."""
    if Role.PROVIDER not in account.roles:
        raise lacks_role(Role.PROVIDER)
    added = await node_keys.add(connection, account.id, word, machine)
    details = {"key": word.key, "machine": machine, "expires_at": str(word.expires_at)}
    await audit.append(
        connection,
        services.keys.audit,
        AuditKind.NODE_KEY_AUTHORISED,
        account.id,
        added.id,
        details,
    )
    return added


def _spelled(word: Delegation) -> Delegation:
    return replace(word, wallet=checksummed(word.wallet), key=checksummed(word.key))


def _is_new(services: Services, word: Delegation, now: datetime) -> bool:
    return abs(now.timestamp() - word.issued_at) <= services.settings.nonce_seconds


def _ends_in_time(services: Services, word: Delegation, now: datetime) -> bool:
    longest = services.settings.node_key_seconds
    return now.timestamp() < word.expires_at <= word.issued_at + longest


async def _is_signed(services: Services, word: Delegation) -> bool:
    """By the wallet's key, or by a contract on any of the server's chains."""
    signed = digest(word)
    for chain_id in services.settings.chain_ids:
        try:
            await sign_in.verify_signature(services, word.wallet, signed, word.signature, chain_id)
        except NotSignedIn:
            continue
        return True
    return False


def _refused(complaint: str) -> InvalidInput:
    return InvalidInput(
        f"The delegation is not valid. {complaint}", "Request a new challenge and sign again."
    )
