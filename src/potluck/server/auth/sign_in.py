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
        parsed = sign_in_message.read(message)
    except InvalidInput as error:
        raise refused() from error
    wanted = parsed.statement == statement if statement else _is_login(parsed)
    if not (wanted and is_for(services, parsed) and is_current(parsed, now, _lifetime(services))):
        raise refused()
    if nonce.expiry(services.keys.nonce, parsed.nonce, now, _lifetime(services)) is None:
        raise refused()
    chain_id = parsed.chain_id if may_be_contract else None
    await verify_signature(services, parsed.address, text_digest(message), signature, chain_id)
    return parsed


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


def is_for(services: Services, parsed: SignIn) -> bool:
    """Whether it names an origin and a chain of this server."""
    named = {origin.partition("://")[2]: origin for origin in services.origins}
    origin = named.get(parsed.domain)
    if origin is None or parsed.chain_id not in services.settings.chain_ids:
        return False
    scheme = origin.partition("://")[0]
    is_same = parsed.uri == origin or parsed.uri.startswith(f"{origin}/")
    return is_same and parsed.scheme in (None, scheme)


def is_current(parsed: SignIn, now: datetime, lifetime: timedelta) -> bool:
    """Whether it is recent and within its own validity."""
    return abs(now - moment(parsed.issued_at)) <= lifetime and is_in_force(parsed, now)


def is_in_force(parsed: SignIn, now: datetime) -> bool:
    begins = parsed.not_before is None or moment(parsed.not_before) <= now
    return begins and (parsed.expiration_time is None or now < moment(parsed.expiration_time))


def _is_login(parsed: SignIn) -> bool:
    return not (parsed.statement or "").startswith((NODE_STATEMENT, TERMINAL_STATEMENT))


def refused() -> NotSignedIn:
    return NotSignedIn(
        "The signature is not valid for this server.",
        "Request a new challenge and sign exactly its message, for this server, within minutes.",
    )


def _lifetime(services: Services) -> timedelta:
    return timedelta(seconds=services.settings.nonce_seconds)
