"""Who asks while everything is tried: nobody, and each kind of credential, renewed for each round.

A round may well sign itself out or give its rights away; the next one begins anew.
"""

from collections.abc import Callable

from msgspec import Struct

from tests.processes import ServerProcess
from tests.security.people import KEY_SCOPES, Person


class FuzzCaller(Struct, frozen=True):
    name: str
    person: Person  # whose things it names
    token: Callable[[], str]


def callers(server: ServerProcess) -> list[FuzzCaller]:
    admin = server.client()
    person = Person(server, "fuzzing").be(admin, "consumer", "provider")
    chief = Person(server, "fuzzing admin").be(admin, "consumer", "provider", "admin")
    node = Person(server, "fuzzing node").be(admin, "provider")
    keyed = Person(server, "fuzzing key").be(admin, "consumer", "provider")
    key = keyed.api.post("/v1/me/keys", {"name": "all", "scopes": KEY_SCOPES})["secret"]
    return [
        FuzzCaller("anonymous", person, lambda: ""),
        FuzzCaller("session", person, lambda: _session(person)),
        FuzzCaller("admin", chief, lambda: _session(chief)),
        FuzzCaller("key", keyed, lambda: key),
        FuzzCaller("node key", node, node.node_token),
    ]


def _session(person: Person) -> str:
    """Of somebody who is still what it was: an operator sees to that."""
    admin = person.server.client()
    admin.call("POST", f"/v1/accounts/{person.account_id}/resume")
    return str(person.wallet.sign_in(person.server.url)["access_token"])
