"""Who asks while everything is tried: nobody, and each kind of credential, renewed for each round.

A round may well sign itself out or give its rights away; the next one begins anew.
"""

from collections.abc import Callable

from msgspec import Struct

from potluck.wire import routes
from tests.processes import ServerProcess
from tests.security.people import KEY_SCOPES, Person

_BOTH = ("consumer", "provider")


class FuzzCaller(Struct, frozen=True):
    name: str
    person: Person  # whose things it names
    token: Callable[[], str]


def callers(server: ServerProcess) -> list[FuzzCaller]:
    admin = server.client()
    person = Person(server, "fuzzing")
    chief = Person(server, "fuzzing admin")
    node = Person(server, "fuzzing node").be(admin, "provider")
    keyed = Person(server, "fuzzing key").be(admin, "consumer", "provider")
    key = keyed.api.post(routes.MAKE_KEY.path, {"name": "all", "scopes": KEY_SCOPES})["secret"]
    return [
        FuzzCaller("anonymous", person, lambda: ""),
        FuzzCaller("session", person, lambda: _session(person, *_BOTH)),
        FuzzCaller("admin", chief, lambda: _session(chief, *_BOTH, "admin")),
        FuzzCaller("key", keyed, lambda: key),
        FuzzCaller("node key", node, lambda: _node_key(node)),
    ]


def _node_key(person: Person) -> str:
    """Authorised anew: the last round may have left the pool for good, and its key with it."""
    token = str(person.wallet.sign_in(person.server.url)["access_token"])
    person.wallet.authorise(person.server.url, token, person.node_key)
    return person.node_token()


def _session(person: Person, *roles: str) -> str:
    """Of somebody who is what it was, whatever the last round made of it."""
    server = person.server
    admin = server.client(server.sign_in(server.wallet))  # a night is longer than a token lives
    admin.call("POST", routes.RESUME_ACCOUNT.url(account_id=person.account_id))
    person.be(admin, *roles)
    return str(person.wallet.sign_in(server.url)["access_token"])
