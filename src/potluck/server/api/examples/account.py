"""One's own account: roles, sessions, keys."""

from typing import Final

from potluck.model.account import Credential, Quota, Role, Scope
from potluck.server.api.examples.example import NOTHING, Area, Example
from potluck.server.api.examples.names import (
    ACCOUNT,
    KEY,
    NODE,
    NODE_KEY,
    NODE_KEY_ID,
    ORIGIN,
    SESSION,
    SIGNATURE,
    WALLET,
    at,
)
from potluck.wire.identity import (
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

_SCOPES = (Scope.TASKS_READ, Scope.TASKS_WRITE, Scope.POOL_READ)
_ME = Me(
    ACCOUNT,
    WALLET,
    [Role.CONSUMER, Role.PROVIDER],
    Credential.SESSION,
    [Scope.ACCOUNT_READ, Scope.ACCOUNT_WRITE, *_SCOPES],
    available_micro=4_250_000,
    held_micro=750_000,
    quota=Quota(1.0, 64, 1_000, 0, 100 * 2**30),
    used_blob_bytes=635_000,
)
_KEY = KeyView(KEY, "ci", list(_SCOPES), at(9, 30), at(9, 30).replace(year=2027))
_ISSUED = int(at(9, 30).timestamp())
_DELEGATION = Delegation(
    WALLET,
    NODE_KEY,
    ORIGIN,
    ("node",),
    _ISSUED,
    _ISSUED + 30 * 86_400,
    "7Jk3mQ9xT2vB6cR8wL5d",
    SIGNATURE,
)
_NODE_KEY = NodeKeyView(
    NODE_KEY_ID,
    NODE_KEY,
    "attic",
    ["node"],
    ORIGIN,
    at(9, 30),
    at(9, 30).replace(month=12),
    NODE,
    at(9, 31),
)

AREA: Final = Area(
    "account",
    "Who you are here: your roles and credits, where you are signed in, your API keys, and the "
    "keys of the machines that work for your wallet.",
    {
        "me": Example("See your account", answer=_ME),
        "choose_roles": Example(
            "Choose your roles", ChooseRoles((Role.CONSUMER, Role.PROVIDER)), _ME
        ),
        "list_keys": Example("List your API keys", answer=KeyList([_KEY])),
        "make_key": Example(
            "Make an API key",
            NewKey("ci", _SCOPES),
            KeyMade("potluck_key_not-a-real-one", _KEY),
            also=(409,),
        ),
        "revoke_key": Example("Revoke an API key", answer=NOTHING),
        "list_sessions": Example(
            "List your sessions",
            answer=SessionList(
                [SessionView(SESSION, "laptop", at(9, 30), at(9, 42), at(21, 30), True)]
            ),
        ),
        "end_session": Example("End a session", answer=NOTHING),
        "list_node_keys": Example("List your node keys", answer=NodeKeyList([_NODE_KEY])),
        "authorise_node_key": Example(
            "Authorise a node key", NewNodeKey(_DELEGATION, "attic"), _NODE_KEY, also=(409,)
        ),
        "revoke_node_key": Example("Revoke a node key", answer=NOTHING),
    },
)
