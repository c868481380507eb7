"""Node keys of one's own account: authorised by the wallet, listed, revoked."""

from datetime import UTC, datetime
from typing import Any

from litestar import Controller, Request, delete, get, post

from potluck.model.audit import AuditKind
from potluck.model.error import NotFound
from potluck.model.ids import is_id
from potluck.server.auth import delegation
from potluck.server.auth.caller import Caller
from potluck.server.flow.lease import lease
from potluck.server.services import Parts
from potluck.store.identity import audit, node_keys
from potluck.store.nodes import nodes
from potluck.store.nodes.nodes import Owner
from potluck.wire import routes
from potluck.wire.identity import NewNodeKey, NodeKeyList, NodeKeyView


class NodeKeyController(Controller):
    @get(routes.LIST_NODE_KEYS.template, operation_id="list_node_keys")
    async def list_node_keys(self, request: Request[Caller, Any, Any], parts: Parts) -> NodeKeyList:
        """The node keys in force: on which machines, for which nodes, until when."""
        async with parts.database.transaction() as connection:
            return NodeKeyList(await node_keys.of_account(connection, request.user.id))

    @post(routes.AUTHORISE_NODE_KEY.template, operation_id="authorise_node_key")
    async def authorise_node_key(
        self, data: NewNodeKey, request: Request[Caller, Any, Any], parts: Parts
    ) -> NodeKeyView:
        """Takes the wallet's word (EIP-712) that a key may work for it. Once more renews it."""
        now, account = datetime.now(UTC), request.user.account
        word = await delegation.verify(parts, data.delegation, account.address, now)
        async with parts.database.transaction() as connection:
            await delegation.take(connection, parts, word, now)
            return await delegation.authorise(connection, parts, account, word, data.machine)

    @delete(routes.REVOKE_NODE_KEY.template, operation_id="revoke_node_key")
    async def revoke_node_key(
        self, node_key_id: str, request: Request[Caller, Any, Any], parts: Parts
    ) -> None:
        """The key is worth nothing from now on: its node leaves, and what it held is given back."""
        caller = request.user
        async with parts.database.transaction() as connection:
            is_one = is_id(node_key_id, "nodekey")
            key = await node_keys.revoke(connection, node_key_id, caller.id) if is_one else None
            if key is None:
                raise NotFound(
                    f"You have no node key {node_key_id[:64]!r}.",
                    "`potluck provider keys` lists them.",
                )
            await audit.append(
                connection,
                parts.keys.audit,
                AuditKind.NODE_KEY_REVOKED,
                caller.id,
                node_key_id,
                {"key": key},
            )
            node_id = await nodes.of_key(connection, node_key_id)
        if node_id is not None:
            await lease.leave(parts, Owner(caller.id, node_key_id), node_id)
