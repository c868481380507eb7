"""Signing in with a wallet: challenge, login, refresh, logout."""

from datetime import UTC, datetime, timedelta
from typing import Any

from litestar import Controller, Request, post

from potluck.model.audit import AuditKind
from potluck.server.accounts.get_or_create import enter
from potluck.server.auth import sessions, sign_in
from potluck.server.auth.caller import Caller
from potluck.server.auth.nonce import new_nonce
from potluck.server.services import Parts
from potluck.wire import routes
from potluck.wire.identity import Challenge, Login, Refresh, Tokens


class AuthController(Controller):
    @post(routes.CHALLENGE.template, operation_id="challenge", status_code=200)
    async def challenge(self, parts: Parts) -> Challenge:
        """A nonce to sign within minutes, and the names and chains that the message may say."""
        now, settings = datetime.now(UTC), parts.settings
        return Challenge(
            new_nonce(parts.keys.nonce, now),
            now + timedelta(seconds=settings.nonce_seconds),
            list(parts.origins),
            list(settings.chain_ids),
            settings.node_key_seconds,
        )

    @post(routes.LOGIN.template, operation_id="login")
    async def login(self, data: Login, parts: Parts) -> Tokens:
        """Trades a signed EIP-4361 message for a session. The first one makes the account."""
        now = datetime.now(UTC)
        said = await sign_in.verify(parts, data.message, data.signature, now)
        async with parts.database.transaction() as connection:
            await sign_in.use_nonce(connection, parts, said.nonce, now)
            account = await enter(connection, parts, said.address, data.invite)
            return await sessions.open_session(connection, parts, account, data.machine)

    @post(routes.REFRESH.template, operation_id="refresh", status_code=200)
    async def refresh(self, data: Refresh, parts: Parts) -> Tokens:
        """The next pair of tokens. Each refresh token is good for one use."""
        return await sessions.refresh(parts, data.refresh_token)

    @post(routes.LOGOUT.template, operation_id="logout", status_code=204)
    async def logout(self, request: Request[Caller, Any, Any], parts: Parts) -> None:
        """Ends this session: its tokens are worth nothing from now on."""
        caller = request.user
        async with parts.database.transaction() as connection:
            await sessions.end_session(
                connection, parts, caller.account, caller.credential_id, AuditKind.SIGNED_OUT
            )
