"""Who calls in the matrix: each kind of credential, with and without what it takes."""

from msgspec import Struct

from potluck.model.account import ROLE_FOR, SCOPES, Credential, Role, Scope
from potluck.wire import routes
from tests.processes import Api, ServerProcess
from tests.security.people import KEY_SCOPES, Person

_SESSION = SCOPES[Credential.SESSION]
_NODE = SCOPES[Credential.NODE]


class Player(Struct, frozen=True):
    """A credential, and what the policy page says that it is."""

    name: str
    token: str
    person: Person | None = None  # none: nobody at all
    scopes: frozenset[Scope] = frozenset()
    roles: frozenset[Role] = frozenset()
    is_suspended: bool = False

    def denial(self, scopes: tuple[Scope, ...]) -> str | None:
        """The code that keeps it from routes of these scopes; none if it is let through."""
        if not scopes:
            return None
        if self.person is None:
            return "not_signed_in"
        if self.is_suspended:
            return "account_suspended"
        return None if any(map(self._may_use, scopes)) else "forbidden"

    def _may_use(self, scope: Scope) -> bool:
        role = ROLE_FOR.get(scope)
        return scope in self.scopes and (role is None or role in self.roles)


def players(server: ServerProcess) -> list[Player]:
    admin = server.client()
    return [
        Player("anonymous", ""),
        _signed_out(server),
        _revoked(server),
        *(_session(server, admin, *roles) for roles in _ROLES),
        *_keys(server, admin, "consumer"),
        *_keys(server, admin, "provider"),
        _node(server, admin, "provider"),
        _node(server, admin, "consumer"),
        *_suspended(server, admin),
    ]


_ROLES = [
    (),
    ("consumer",),
    ("provider",),
    ("admin",),
    ("consumer", "provider"),
    ("admin", "consumer", "provider"),
]


def _signed_out(server: ServerProcess) -> Player:
    token = Person(server, "signed out").token
    assert server.client(token).call("POST", routes.LOGOUT.path).status == 204
    return Player("signed out", token)


def _revoked(server: ServerProcess) -> Player:
    person = Person(server, "revoked")
    created_key = person.new_key(Scope.ACCOUNT_READ)
    path = routes.REVOKE_KEY.url(key_id=created_key["key"]["id"])
    assert person.api.call("DELETE", path).status == 204
    return Player("a revoked key", created_key["secret"])


def _session(server: ServerProcess, admin: Api, *roles: str) -> Player:
    person = Person(server, "session").be(admin, *roles)
    name = " and ".join(roles) or "no role"
    return Player(f"session, {name}", person.token, person, _SESSION, _as_roles(*roles))


def _keys(server: ServerProcess, admin: Api, *roles: str) -> list[Player]:
    person = Person(server, "key").be(admin, *roles)
    return [
        Player(
            f"key of a {' and '.join(roles)}, {scope}",
            person.keys[scope],
            person,
            frozenset({scope}),
            _as_roles(*roles),
        )
        for scope in KEY_SCOPES
    ]


def _node(server: ServerProcess, admin: Api, *roles: str) -> Player:
    person = Person(server, "node key").be(admin, *roles)
    name = f"node key of a {' and '.join(roles)}"
    return Player(name, person.node_token(), person, _NODE, _as_roles(*roles))


def _suspended(server: ServerProcess, admin: Api) -> list[Player]:
    person = Person(server, "suspended").be(admin, "consumer", "provider", "admin")
    tokens = {
        "session": person.token,
        "key": person.keys[Scope.ACCOUNT_READ],
        "node key": person.node_token(),
    }
    person.suspended(admin)
    return [
        Player(f"suspended, {name}", token, person, is_suspended=True)
        for name, token in tokens.items()
    ]


def _as_roles(*roles: str) -> frozenset[Role]:
    return frozenset(map(Role, roles))
