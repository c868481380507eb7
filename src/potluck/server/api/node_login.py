"""Signing in with a node key: a short token, no refresh, no account of its own."""

from datetime import UTC, datetime, timedelta

from litestar import Controller, post

from potluck.model.account import Credential
from potluck.model.audit import AuditKind
from potluck.server.auth import access_tokens, sign_in
from potluck.server.auth.access_tokens import Claims
from potluck.server.auth.caller import suspended
from potluck.server.services import Parts
from potluck.store.identity import audit, node_keys
from potluck.wire import routes
from potluck.wire.identity import NodeLogin, NodeToken
from potluck.wire.signing.sign_in_answer import NODE_STATEMENT


class NodeLoginController(Controller):
    @post(routes.NODE_LOGIN.template, operation_id="node_login", status_code=200)
    async def node_login(self, data: NodeLogin, parts: Parts) -> NodeToken:
        """Trades an EIP-4361 message that a node key signed for a token of a few minutes."""
        now = datetime.now(UTC)
        said = await sign_in.verify(
            parts, data.message, data.signature, now, NODE_STATEMENT, may_be_contract=False
        )
        async with parts.database.transaction() as connection:
            holder = await node_keys.by_address(connection, said.address)
            if holder is None:
                raise sign_in.refused()
            await sign_in.use_nonce(connection, parts, said.nonce, now)
            if await node_keys.note_use(connection, holder.node_key_id):
                actor, subject = holder.account.id, holder.node_key_id
                await audit.append(
                    connection, parts.keys.audit, AuditKind.NODE_KEY_USED, actor, subject
                )
        if holder.account.suspended_at is not None:
            raise suspended(holder.account)
        lifetime = timedelta(seconds=parts.settings.access_seconds)
        claims = Claims(holder.account.id, Credential.NODE, holder.node_key_id)
        token = access_tokens.issue(parts.keys.access, claims, now, lifetime)
        return NodeToken(token, lifetime.total_seconds(), holder.account.id)
