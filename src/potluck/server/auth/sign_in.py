"""Verifies signed sign-in messages: content, signer and nonce.

Everything is checked against the server's settings, never against claims in the request. All
failures have the same response, so that an attacker learns nothing from it.
"""

from datetime import datetime, timedelta

from potluck.model.error import InvalidInput, NotSignedIn
from potluck.server.auth import nonce
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.identity import nonces
from potluck.wire.signing import sign_in_message
from potluck.wire.signing.sign_in_answer import NODE_STATEMENT, TERMINAL_STATEMENT
from potluck.wire.signing.sign_in_message import SignIn, moment
from potluck.wire.signing.signature import recover, text_digest


async def verify(
    services: Services,
    message: str,
    signature: str,
    now: datetime,
    statement: str | None = None,
    may_be_contract: bool = True,
) -> SignIn:
    """Returns the parsed message if it is valid and signed by its address.

    A given `statement` must match exactly; without one the message must be a login, not for
    another purpose. Does not use the nonce.
    """
    try:
        said = sign_in_message.read(message)
    except InvalidInput as error:
        raise refused() from error
    wanted = said.statement == statement if statement else _is_login(said)
    if not (wanted and is_for(services, said) and is_current(said, now, _lifetime(services))):
        raise refused()
    if nonce.expiry(services.keys.nonce, said.nonce, now, _lifetime(services)) is None:
        raise refused()
    chain_id = said.chain_id if may_be_contract else None
    await verify_signature(services, said.address, text_digest(message), signature, chain_id)
    return said


async def verify_signature(
    services: Services, address: str, digest: bytes, signature: str, chain_id: int | None
) -> None:
    """Accepts a signature by the address's key, or with a chain, by a contract wallet on it."""
    signed = bytes.fromhex(signature.removeprefix("0x")) if len(signature) % 2 == 0 else b""
    if recover(digest, signed) == address:
        return
    wallets = services.contract_wallets
    if chain_id is None or not await wallets.accept(chain_id, address, digest, signed):
        raise refused()


async def use_nonce(
    connection: Connection, services: Services, said_nonce: str, now: datetime
) -> None:
    """Uses the nonce; the first caller succeeds, all others are refused."""
    expires_at = nonce.expiry(services.keys.nonce, said_nonce, now, _lifetime(services))
    if expires_at is None or not await nonces.use(connection, said_nonce, expires_at):
        raise refused()


def is_for(services: Services, said: SignIn) -> bool:
    """Whether it names an origin and a chain of this server."""
    named = {origin.partition("://")[2]: origin for origin in services.origins}
    origin = named.get(said.domain)
    if origin is None or said.chain_id not in services.settings.chain_ids:
        return False
    scheme = origin.partition("://")[0]
    is_same = said.uri == origin or said.uri.startswith(f"{origin}/")
    return is_same and said.scheme in (None, scheme)


def is_current(said: SignIn, now: datetime, lifetime: timedelta) -> bool:
    """Whether it is recent and within its own validity."""
    return abs(now - moment(said.issued_at)) <= lifetime and is_in_force(said, now)


def is_in_force(said: SignIn, now: datetime) -> bool:
    begins = said.not_before is None or moment(said.not_before) <= now
    return begins and (said.expiration_time is None or now < moment(said.expiration_time))


def _is_login(said: SignIn) -> bool:
    return not (said.statement or "").startswith((NODE_STATEMENT, TERMINAL_STATEMENT))


def refused() -> NotSignedIn:
    return NotSignedIn(
        "The signature is not valid for this server.",
        "Request a new challenge and sign exactly its message, for this server, within minutes.",
    )


def _lifetime(services: Services) -> timedelta:
    return timedelta(seconds=services.settings.nonce_seconds)
