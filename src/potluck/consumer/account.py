"""The caller's own account: roles, sessions, API keys, node keys."""

from collections.abc import Sequence

from potluck.consumer.http.transport import (
    Transport,
    call_api,
    idempotency_header,
    iter_pages,
    send_command,
)
from potluck.consumer.identity.sign_in import get_challenge
from potluck.model.account import Role, Scope
from potluck.wire import routes
from potluck.wire.identity import (
    Challenge,
    ChooseRoles,
    Delegation,
    KeyList,
    KeyMade,
    KeysRevoked,
    KeyView,
    Me,
    NewKey,
    NewNodeKey,
    NodeKeyList,
    NodeKeyView,
    SessionList,
    SessionView,
)


class OwnAccount:
    """Calls about the caller's account. Calls that create something are not repeated."""

    def __init__(self, transport: Transport):
        self._transport = transport

    def me(self) -> Me:
        """The account of the credential, and the credential's scopes."""
        return call_api(self._transport, routes.ME, Me)

    def challenge(self) -> Challenge:
        """A nonce for the next wallet signature."""
        return get_challenge(self._transport)

    def choose_roles(self, roles: Sequence[Role]) -> Me:
        """Replaces the account's roles: consumer, provider, both or none."""
        body = ChooseRoles(tuple(roles))
        return call_api(self._transport, routes.CHOOSE_ROLES, Me, body=body)

    def sessions(self) -> list[SessionView]:
        """The sessions of this wallet."""
        pages = iter_pages(self._transport, routes.LIST_SESSIONS, SessionList)
        return [session for page in pages for session in page.sessions]

    def end_session(self, session_id: str) -> None:
        """Ends a session of this wallet."""
        send_command(self._transport, routes.END_SESSION, {"session_id": session_id})

    def log_out(self) -> None:
        """Ends the session that this client uses."""
        send_command(self._transport, routes.LOGOUT)

    def keys(self) -> list[KeyView]:
        """The valid API keys, without their secrets."""
        pages = iter_pages(self._transport, routes.LIST_KEYS, KeyList)
        return [key for page in pages for key in page.keys]

    def make_key(self, name: str, scopes: Sequence[Scope], expires_in: int) -> KeyMade:
        """Creates an API key; only this response contains its secret."""
        body = NewKey(name, tuple(scopes), expires_in)
        return call_api(
            self._transport, routes.MAKE_KEY, KeyMade, body=body, headers=idempotency_header()
        )

    def revoke_key(self, key_id: str) -> None:
        """Revokes an API key immediately."""
        send_command(self._transport, routes.REVOKE_KEY, {"key_id": key_id})

    def revoke_keys(self) -> list[str]:
        """Revokes all API keys immediately; returns their ids."""
        return call_api(self._transport, routes.REVOKE_KEYS, KeysRevoked).revoked

    def node_keys(self) -> list[NodeKeyView]:
        """The node keys that this wallet has authorised."""
        pages = iter_pages(self._transport, routes.LIST_NODE_KEYS, NodeKeyList)
        return [key for page in pages for key in page.node_keys]

    def authorise_node_key(self, delegation: Delegation, machine: str) -> NodeKeyView:
        """Authorises a machine's key to work for this wallet, as the delegation says."""
        body = NewNodeKey(delegation, machine)
        return call_api(self._transport, routes.AUTHORISE_NODE_KEY, NodeKeyView, body=body)

    def revoke_node_key(self, node_key_id: str) -> None:
        """Revokes a machine's key; the machine gets no more work for this wallet."""
        send_command(self._transport, routes.REVOKE_NODE_KEY, {"node_key_id": node_key_id})
