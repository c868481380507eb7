"""Sessions: opened by a signature, extended by refresh tokens that can be used once.

The tabs of a browser share one cookie, so two of them may send the same refresh token at once, and
a response may be lost when a page is reloaded. The successor of a browser's token is therefore
derived from it: a token that was just used gets the same successor again, for a few seconds and
only while that one is unused. There is one line of tokens, never two.
"""

from datetime import timedelta

from potluck.model.account import Credential
from potluck.model.audit import AuditKind
from potluck.model.error import NotSignedIn
from potluck.server.auth import access_tokens
from potluck.server.auth.access_tokens import Claims
from potluck.server.auth.caller import suspended
from potluck.server.auth.tokens import REFRESH_PREFIX, new_secret, next_secret, secret_hash
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.identity import audit, sessions
from potluck.store.identity.accounts import Account
from potluck.wire.identity import Tokens


async def open_session(
    connection: Connection,
    services: Services,
    account: Account,
    machine: str,
    is_browser: bool = False,
) -> Tokens:
    """Opens a session after a verified signature, in the transaction that used its nonce."""
    refresh_token = new_secret(REFRESH_PREFIX)
    session_id = await sessions.open_session(
        connection, account.id, machine, secret_hash(refresh_token), _lasting(services), is_browser
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
    return await _rotate(services, used, new_secret(REFRESH_PREFIX), None)


async def refresh_browser(services: Services, used: str) -> Tokens:
    """The same for a browser, except that a token which was just used gets the same successor."""
    following = next_secret(services.keys.refresh, used, REFRESH_PREFIX)
    grace = timedelta(seconds=services.settings.refresh_grace_seconds)
    return await _rotate(services, used, following, grace)


async def _rotate(
    services: Services, used: str, following: str, browser_grace: timedelta | None
) -> Tokens:
    async with services.database.transaction() as connection:
        turned = await sessions.rotate(
            connection, secret_hash(used), secret_hash(following), _lasting(services), browser_grace
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
        raise not_valid()
    if turned.account.suspended_at is not None:
        raise suspended(turned.account)
    return _tokens(services, turned.account, turned.session_id, following)


async def end_browser_session(services: Services, refresh_token: str) -> None:
    """Ends the session of a cookie, if it is open."""
    async with services.database.transaction() as connection:
        session = await sessions.find_by_refresh(
            connection, secret_hash(refresh_token), is_browser=True
        )
        if session is not None:
            kind = AuditKind.SIGNED_OUT
            await end_session(connection, services, session.account, session.session_id, kind)


def not_valid() -> NotSignedIn:
    return NotSignedIn("The refresh token is not valid.", "Sign in again: `potluck login`.")


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
