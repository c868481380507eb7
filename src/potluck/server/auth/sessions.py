"""Sessions: opened by a signature, extended by refresh tokens that can be used once."""

from datetime import timedelta

from potluck.model.account import Credential
from potluck.model.audit import AuditKind
from potluck.model.error import NotSignedIn
from potluck.server.auth import access_tokens
from potluck.server.auth.access_tokens import Claims
from potluck.server.auth.caller import suspended
from potluck.server.auth.tokens import REFRESH_PREFIX, new_secret, secret_hash
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.identity import audit, sessions
from potluck.store.identity.accounts import Account
from potluck.wire.identity import Tokens


async def open_session(
    connection: Connection, services: Services, account: Account, machine: str
) -> Tokens:
    """Opens a session after a verified signature, in the transaction that used its nonce."""
    refresh_token = new_secret(REFRESH_PREFIX)
    session_id = await sessions.open_session(
        connection, account.id, machine, secret_hash(refresh_token), _lasting(services)
    )
    await audit.append(
        connection,
        services.keys.audit,
        AuditKind.SIGNED_IN,
        account.id,
        session_id,
        {"machine": machine},
    )
    return _tokens(services, account, session_id, refresh_token)


async def refresh(services: Services, used: str) -> Tokens:
    """Returns the next pair. A reused token ends the session: one of its two users is a thief."""
    following = new_secret(REFRESH_PREFIX)
    async with services.database.transaction() as connection:
        turned = await sessions.rotate(
            connection, secret_hash(used), secret_hash(following), _lasting(services)
        )
        if turned is not None and turned.was_reused:
            await audit.append(
                connection,
                services.keys.audit,
                AuditKind.REFRESH_REUSED,
                turned.account.id,
                turned.session_id,
            )
    # After the transaction, so that the end of the session is committed.
    if turned is None or turned.was_reused:
        raise NotSignedIn("The refresh token is not valid.", "Sign in again: `potluck login`.")
    if turned.account.suspended_at is not None:
        raise suspended(turned.account)
    return _tokens(services, turned.account, turned.session_id, following)


async def end_session(
    connection: Connection, services: Services, account: Account, session_id: str, kind: AuditKind
) -> bool:
    """Ends a session. Returns whether it existed; its tokens become invalid immediately."""
    if not await sessions.revoke(connection, session_id, account.id):
        return False
    await audit.append(connection, services.keys.audit, kind, account.id, session_id)
    return True


def _tokens(services: Services, account: Account, session_id: str, refresh_token: str) -> Tokens:
    lifetime = timedelta(seconds=services.settings.access_seconds)
    claims = Claims(account.id, Credential.SESSION, session_id)
    token = access_tokens.issue(services.keys.access, claims, services.clock.now(), lifetime)
    return Tokens(token, lifetime.total_seconds(), refresh_token, account.id, account.address)


def _lasting(services: Services) -> timedelta:
    return timedelta(seconds=services.settings.session_seconds)
