"""Every operation of a server × everybody who may call × what it is about: asked, not yet judged.

The operations come from the running server's own document. One without a row in the policy, about
a kind of object that nobody here can make, or with a body that nobody here can write, fails.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import urllib3
from msgspec import Struct

from potluck.model.account import Scope
from potluck.server.api.operations import OPERATIONS
from potluck.wire import routes
from tests.processes import ServerProcess, await_true
from tests.security.bodies import BODIES, LEASE, content_type, encoded
from tests.security.people import Person
from tests.security.players import Player, players

OWN, FOREIGN, MISSING, NO_OBJECT = "own", "foreign", "missing", "no object"
# Well-formed names of what does not exist.
NAMES_OF_NOTHING = {
    **{
        f"{kind}_id": f"{kind.replace('_', '')}_01jd0000000000000000000000"
        for kind in (
            *("task", "session", "key", "node_key", "node", "device", "account", "invite"),
            *("upload", "webhook", "delivery", "silence", "volume"),
        )
    },
    "user_code": "BCDF-GHJK",
    "sha256": "0" * 64,
    "file": "potluck-0.0.1-py3-none-any.whl",
    "version": "0" * 64,
    "epoch": "999999999",
}
# Whose a thing is is said by the first name in a path; what else it says is this.
_BESIDE = {**NAMES_OF_NOTHING, "number": "0"}
# What an operation takes besides its path and its body.
QUERIES = {"get_input": f"?attempt_id={LEASE['attempt_id']}"}
HEADERS = {
    "get_input": {"Potluck-Lease": LEASE["token"]},
    # Not from this machine, which would need no credential.
    "metrics": {"X-Forwarded-For": "203.0.113.7"},
}
# What ends the caller's own object comes last, so that the cells before it find it.
_LAST = ["remove_volume", "remove_webhook", "revoke_keys", "leave", "suspend_account"]
# Made for each cell.
_OF_NOBODY = ("user_code", "invite_id", "silence_id", "file", "epoch")
# About what is somebody's, and shown to everybody in the pool.
_SHOWN = {"get_node", "device_prices"}


class Operation(Struct, frozen=True):
    name: str
    method: str
    path: str
    about: str | None  # the name in its path, or the first of several
    has_body: bool

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Any one of them lets in."""
        return OPERATIONS[self.name].scopes

    @property
    def is_owned(self) -> bool:
        """Whether what it is about is somebody's; admins see to everybody's, strangers to none."""
        is_kept = self.scopes not in ((), (Scope.ADMIN,)) and self.name not in _SHOWN
        return self.about is not None and is_kept

    def url(self, object_id: str) -> str:
        """About what has this name."""
        path = self.path.replace(f"{{{self.about}}}", object_id)
        return re.sub(r"{(\w+)}", lambda match: _BESIDE[match[1]], path)


class Answer(Struct, frozen=True):
    """`text` has the asked name taken out, so that two answers can be compared."""

    status: int
    code: str  # of the problem; empty for a success
    text: str


class Matrix:
    """A pool of one server, somebody to be foreign, and everybody who calls."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.operations = operations(server.client().get("/schema/openapi.json"))
        self.other = Person(server, "other")
        self._somebody = Person(server, "somebody")  # in the bodies of those who are nobody
        # Whom anybody may ask about, as new as if nobody had ever done anything to it.
        self._bystander: Person | None = None
        self.players = players(server)
        self.refusal = _answer(urllib3.request("GET", server.url + routes.ME.path), "")
        self._before = self._state_of_other()

    def cells(self, player: Player) -> Iterator[tuple[Operation, str]]:
        for operation in self.operations:
            for ownership in _ownerships(operation, player):
                yield operation, ownership

    def ask(self, operation: Operation, player: Player, ownership: str) -> Answer:
        object_id = self._object(operation, player, ownership)
        token = self._spare(player) if operation.name == "logout" else player.token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= HEADERS.get(operation.name, {})
        body = encoded(operation.name, player.person or self._somebody)
        if body is not None:
            headers["Content-Type"] = content_type(operation.name)
        response = urllib3.request(
            operation.method,
            self.server.url + operation.url(object_id) + QUERIES.get(operation.name, ""),
            headers=headers,
            body=body,
            retries=False,
            timeout=30,
            preload_content=False,
        )
        if operation.method != "GET" and response.status < 400:
            self._bystander = None
        return _answer(response, object_id)

    def is_other_untouched(self) -> bool:
        return self._state_of_other() == self._before

    def told(self, answer: Answer) -> list[str]:
        """What the answer says of the other that is not for everybody; nodes are the pool's.

        Whom its device is kept from is among it.
        """
        other = self.other
        names = {**other.objects, "address": other.wallet.address, "denied": other.denied}
        secret = [name for kind, name in names.items() if kind not in ("node_id", "device_id")]
        return [name for name in secret if name in answer.text]

    def _object(self, operation: Operation, player: Player, ownership: str) -> str:
        kind = operation.about
        if kind is None:
            return ""
        if ownership == MISSING:
            return NAMES_OF_NOTHING[kind]
        if kind in _OF_NOBODY:
            return self._object_of_nobody(kind)
        if ownership == OWN:
            assert player.person is not None
            return player.person.objects[kind]
        if operation.is_owned:
            return self.other.objects[kind]
        if self._bystander is None:
            self._bystander = Person(self.server, "bystander")
        return self._bystander.objects[kind]

    def _object_of_nobody(self, kind: str) -> str:
        if kind == "user_code":
            return self._new_user_code()
        if kind == "invite_id":
            return self._new_invite()
        if kind == "silence_id":
            return str(self.server.client().post(routes.SILENCE_ALERTS.path, {})["id"])
        if kind == "epoch":
            return self._closed_epoch()
        assert kind == "file"
        return str(self.server.client("").get(routes.PACKAGE.path)["file"])

    def _new_user_code(self) -> str:
        return str(self.server.client("").post(routes.ASK_FOR_TERMINAL.path, {})["user_code"])

    def _closed_epoch(self) -> str:
        admin = self.server.client()
        await_true(lambda: len(admin.get(routes.LIST_EPOCHS.path)["epochs"]) > 1, "one is closed")
        return "000000001"  # a text that is nowhere else in an answer

    def _new_invite(self) -> str:
        return str(self.server.client().post(routes.MAKE_INVITE.path, {})["invite"]["id"])

    def _spare(self, player: Player) -> str:
        """Another session of the same account, as its own is needed in the next cell."""
        person = player.person
        if person is None or player.is_suspended or player.token != person.token:
            return player.token
        return str(person.wallet.sign_in(self.server.url)["access_token"])

    def _state_of_other(self) -> list[Any]:
        api, other = self.other.api, self.other
        task = api.task(other.objects["task_id"])
        nodes = api.get(routes.LIST_NODES.path)["nodes"]
        return [
            *(task[name] for name in ("state", "version")),
            *(_terms(node) for node in nodes if node["id"] == other.node_id),
            other.sessions(),
            [key["id"] for key in api.get(routes.LIST_KEYS.path)["keys"]],
            [key["id"] for key in api.get(routes.LIST_NODE_KEYS.path)["node_keys"]],
            [
                (webhook["id"], webhook["name"])
                for webhook in api.get(routes.LIST_WEBHOOKS.path)["webhooks"]
            ],
            api.get(routes.LIST_VOLUMES.path),
            api.get(routes.ME.path),
        ]


def _terms(node: dict[str, Any]) -> list[Any]:
    devices = [
        (device["availability"], device["description"]["terms"]) for device in node["devices"]
    ]
    return [node["state"], node["wishes"], devices]


def operations(document: dict[str, Any]) -> list[Operation]:
    found_operations = [
        _operation(method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    unknown = [problem for operation in found_operations for problem in _unknown(operation)]
    assert not unknown, unknown
    return sorted(
        found_operations,
        key=lambda operation: _LAST.index(operation.name) + 1 if operation.name in _LAST else 0,
    )


def _operation(method: str, path: str, operation: dict[str, Any]) -> Operation:
    names = re.findall(r"{(\w+)}", path)
    assert set(names[1:]) <= set(_BESIDE), f"teach the matrix to fill {path} in"
    parameter_name = names[0] if names else None
    return Operation(
        operation["operationId"], method.upper(), path, parameter_name, "requestBody" in operation
    )


def _unknown(operation: Operation) -> Iterator[str]:
    if operation.name not in OPERATIONS:
        yield f"{operation.name} has no policy: no area declares it"
    if operation.about is not None and operation.about not in NAMES_OF_NOTHING:
        yield f"nobody here can make what {operation.path} is about"
    if operation.has_body and operation.name not in BODIES:
        yield f"{operation.name} takes a body, and tests/security/bodies.py has none"


def _ownerships(operation: Operation, player: Player) -> tuple[str, ...]:
    if operation.about is None:
        return (NO_OBJECT,)
    if operation.about in _OF_NOBODY or player.person is None:
        return (FOREIGN, MISSING)
    return (FOREIGN, MISSING, OWN)


def _answer(response: urllib3.BaseHTTPResponse, object_id: str) -> Answer:
    """A stream is not read to its end; every other answer is."""
    kind = response.headers.get("content-type", "")
    try:
        if kind.startswith("text/event-stream"):
            return Answer(response.status, "", "")
        text = response.data.decode(errors="replace")
    finally:
        response.close()
    code = json.loads(text)["code"] if kind == "application/problem+json" else ""
    return Answer(response.status, code, text.replace(object_id, "…") if object_id else text)
