"""One's own account: roles, sessions, API keys, node keys."""

from collections.abc import Sequence

from potluck.consumer.http.api_call import ask, idempotent, tell
from potluck.consumer.http.transport import Transport
from potluck.consumer.identity.sign_in import challenge
from potluck.model.account import Role, Scope
from potluck.wire import routes
from potluck.wire.identity import (
    Challenge,
    ChooseRoles,
    Delegation,
    KeyList,
    KeyMade,
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
    """What an account decides about itself. What makes something is not repeated."""

    def __init__(self, transport: Transport):
        self._transport = transport

    def me(self) -> Me:
        """The account behind the credential, and what that covers."""
        return ask(self._transport, routes.ME, Me)

    def challenge(self) -> Challenge:
        """A nonce for what a wallet signs next."""
        return challenge(self._transport)

    def choose_roles(self, roles: Sequence[Role]) -> Me:
        """Consumer, provider, both or none, from now on; all of them, not what changed."""
        body = ChooseRoles(tuple(roles))
        return ask(self._transport, routes.CHOOSE_ROLES, Me, body=body)

    def sessions(self) -> list[SessionView]:
        """Where this wallet is signed in."""
        return ask(self._transport, routes.LIST_SESSIONS, SessionList).sessions

    def end_session(self, session_id: str) -> None:
        """Signs one of them out."""
        tell(self._transport, routes.END_SESSION, {"session_id": session_id})

    def log_out(self) -> None:
        """Ends the session that we speak with."""
        tell(self._transport, routes.LOGOUT)

    def keys(self) -> list[KeyView]:
        """The API keys in force, without their secrets."""
        return ask(self._transport, routes.LIST_KEYS, KeyList).keys

    def make_key(self, name: str, scopes: Sequence[Scope], expires_in: int) -> KeyMade:
        """The secret is in the answer and nowhere else."""
        body = NewKey(name, tuple(scopes), expires_in)
        return ask(self._transport, routes.MAKE_KEY, KeyMade, body=body, headers=idempotent())

    def revoke_key(self, key_id: str) -> None:
        """The key is worth nothing from now on."""
        tell(self._transport, routes.REVOKE_KEY, {"key_id": key_id})

    def node_keys(self) -> list[NodeKeyView]:
        """The keys that this wallet has let work for it."""
        return ask(self._transport, routes.LIST_NODE_KEYS, NodeKeyList).node_keys

    def authorise_node_key(self, delegation: Delegation, machine: str) -> NodeKeyView:
        """Lets a machine's own key work for this wallet, as the delegation says."""
        body = NewNodeKey(delegation, machine)
        return ask(self._transport, routes.AUTHORISE_NODE_KEY, NodeKeyView, body=body)

    def revoke_node_key(self, node_key_id: str) -> None:
        """The machine behind it gets no more work for this wallet."""
        tell(self._transport, routes.REVOKE_NODE_KEY, {"node_key_id": node_key_id})
