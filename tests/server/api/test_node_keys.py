"""Node keys over HTTP: what a wallet's word must say, and what a key may and may not do."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from potluck.wire import routes
from potluck.wire.signing.sign_in_answer import NODE_STATEMENT
from tests.processes import Api, ServerProcess, await_true
from tests.wallets import Wallet

DAY = 86_400
CARD = "GPU-of-the-tests"
# Calls that follow each other faster are recorded as one: a twentieth of the heartbeat interval.
SEEN_PRECISION = timedelta(seconds=1)


class Person:
    """A wallet that is signed in as a provider."""

    def __init__(self, server: ServerProcess, name: str) -> None:
        self.server, self.wallet = server, Wallet(name)
        self.api = server.client(server.sign_in(self.wallet))
        self.api.put(routes.CHOOSE_ROLES.path, {"roles": ["consumer", "provider"]})

    def word(self, node_key: Wallet, **changes: Any) -> dict[str, Any]:
        return self.wallet.delegation(self.challenge(), node_key, **changes)

    def challenge(self) -> Any:
        return self.api.post(routes.CHALLENGE.path, {})

    def authorise(self, delegation: dict[str, Any]) -> tuple[int, Any]:
        return status_of(self.api, routes.AUTHORISE_NODE_KEY.path, {"delegation": delegation})

    def node(self, name: str) -> tuple[str, Api]:
        """A key that was authorised, and its own line to the server."""
        key = Wallet(name)
        status, added = self.authorise(self.word(key))
        assert status == 201, added
        return added["id"], self.server.client(key.sign_in_as_node(self.server.url))

    def node_keys(self) -> list[Any]:
        node_keys: list[Any] = self.api.get(routes.LIST_NODE_KEYS.path)["node_keys"]
        return node_keys

    def revoke(self, key_id: str) -> int:
        return self.api.call("DELETE", routes.REVOKE_NODE_KEY.url(node_key_id=key_id)).status


def status_of(api: Api, path: str, value: Any) -> tuple[int, Any]:
    response = api.call("POST", path, json.dumps(value).encode())
    return response.status, response.json()


@pytest.fixture(scope="module")
def ada(server: ServerProcess) -> Iterator[Person]:
    yield Person(server, "ada")


@pytest.fixture(scope="module")
def bert(server: ServerProcess) -> Iterator[Person]:
    yield Person(server, "bert")


def test_a_key_is_authorised_listed_used_and_revoked_at_once(
    server: ServerProcess, ada: Person
) -> None:
    key_id, node = ada.node("first")
    response = node.post(routes.REGISTER_NODE.path, offer(server, Wallet("first")))
    node_id = response["node_id"]
    heartbeat_path = routes.HEARTBEAT.url(node_id=node_id)
    assert node.call("POST", heartbeat_path, b"{}").status == 200
    (node_key,) = [node_key for node_key in ada.node_keys() if node_key["id"] == key_id]
    assert (node_key["key"], node_key["node_id"]) == (Wallet("first").address, node_id)
    assert ada.revoke(key_id) == 204
    assert node.call("POST", heartbeat_path, b"{}").status == 401
    assert key_id not in [node_key["id"] for node_key in ada.node_keys()]
    assert ada.revoke(key_id) == 404


def test_revoking_a_key_ends_its_poll_and_gives_its_work_back(
    server: ServerProcess, ada: Person
) -> None:
    key_id, node = ada.node("at work")
    response = node.post(routes.REGISTER_NODE.path, offer(server, Wallet("at work")))
    node_id = response["node_id"]
    poll = routes.ACQUIRE_LEASES.url(node_id=node_id)
    client = server.client()
    task_id = client.submit("print('hello')", requirements={"device_kind": "gpu"})
    (grant,) = await_true(lambda: node.post(poll, {"wait_seconds": 1})["grants"], "the grant")
    assert grant["task_id"] == task_id
    held_attempts = [{"attempt_id": grant["attempt_id"], "token": grant["token"]}]
    with ThreadPoolExecutor(1) as threads:
        heard_time = heard_at(client, node_id)
        await_true(
            lambda: datetime.now(UTC) - heard_time > SEEN_PRECISION, "a call is recorded again"
        )
        polling = threads.submit(node.post, poll, {"held": held_attempts, "wait_seconds": 20})
        await_true(lambda: heard_at(client, node_id) != heard_time, "the poll is open")
        started = time.monotonic()
        assert ada.revoke(key_id) == 204
        poll_response = polling.result()
    assert time.monotonic() - started < 5
    assert poll_response == {**poll_response, "grants": [], "stop": [grant["attempt_id"]]}
    assert client.task(task_id)["attempts"][0]["reason"] == "node_left"
    assert node_id not in [node["id"] for node in client.get(routes.LIST_NODES.path)["nodes"]]
    assert client.post(routes.CANCEL_TASK.url(task_id=task_id), {})["state"] == "cancelled"


def heard_at(client: Api, node_id: str) -> datetime:
    (node,) = [
        node for node in client.get(routes.LIST_NODES.path)["nodes"] if node["id"] == node_id
    ]
    return datetime.fromisoformat(node["heartbeat_at"])


def test_a_key_registers_one_node_even_if_repeated(server: ServerProcess, ada: Person) -> None:
    _, node = ada.node("again and again")
    offered = offer(server, Wallet("again and again"))
    with ThreadPoolExecutor(4) as threads:
        responses = list(
            threads.map(lambda _: node.post(routes.REGISTER_NODE.path, offered), range(12))
        )
    assert len({response["node_id"] for response in responses}) == 1


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("another wallet's", {"wallet": Wallet("bert").address}),
    ("another server's", {"origin": "https://elsewhere.example"}),
    ("more than a node may", {"scopes": ["node", "admin"]}),
    ("something else", {"scopes": ["admin"]}),
    ("from an hour ago", {"issued_at": int(time.time()) - 3_600}),
    ("from the future", {"issued_at": int(time.time()) + 3_600}),
    ("for too long", {"expires_at": int(time.time()) + 91 * DAY}),
    ("over already", {"expires_at": int(time.time()) - 1}),
    ("with a nonce of nobody", {"nonce": "0" * 72}),
    ("for itself", {"key": Wallet("ada").address}),
]


@pytest.mark.parametrize(("change"), [row[1] for row in WRONG], ids=[row[0] for row in WRONG])
def test_a_word_that_says_something_else_is_refused(ada: Person, change: dict[str, Any]) -> None:
    status, problem = ada.authorise(ada.word(Wallet("wrong"), **change))
    assert (status, problem["code"]) == (400, "invalid_input")
    assert problem["detail"].startswith("The delegation is not valid.")


def test_a_signature_of_another_wallet_is_refused(ada: Person, bert: Person) -> None:
    delegation = ada.word(Wallet("wrong"))
    forged = bert.word(Wallet("wrong"), **{**delegation, "signature": "0x"})
    status, _ = ada.authorise({**delegation, "signature": forged["signature"]})
    assert status == 400
    for signature in ("0x", "0x00", "0x" + "00" * 65, "0x" + "ff" * 65, "0x1"):
        assert ada.authorise({**delegation, "signature": signature})[0] == 400
    assert bert.authorise(delegation)[0] == 400, "somebody else's word is not mine to hand in"


def test_a_repeated_delegation_authorises_once(ada: Person) -> None:
    delegation = ada.word(Wallet("once"))
    with ThreadPoolExecutor(8) as threads:
        statuses = list(threads.map(lambda _: ada.authorise(delegation)[0], range(16)))
    assert sorted(statuses) == [201] + [400] * 15


def test_the_same_wallet_renews_and_the_tokens_go_on(ada: Person) -> None:
    key_id, node = ada.node("renewed")
    later = int(time.time()) + 30 * DAY
    status, renewed = ada.authorise(ada.word(Wallet("renewed"), expires_at=later))
    assert (status, renewed["id"]) == (201, key_id)
    assert [node_key["id"] for node_key in ada.node_keys()].count(key_id) == 1
    assert node.call("POST", routes.REGISTER_NODE.path, b"{}").status == 400, "and not 401"


def test_a_key_works_for_one_wallet_at_a_time(ada: Person, bert: Person) -> None:
    key_id, _ = ada.node("wanted by two")
    status, problem = bert.authorise(bert.word(Wallet("wanted by two")))
    assert (status, problem["code"]) == (409, "conflict")
    ada.revoke(key_id)
    assert bert.authorise(bert.word(Wallet("wanted by two")))[0] == 201


def test_a_word_ends_by_itself(ada: Person) -> None:
    key, ends = Wallet("short-lived"), int(time.time()) + 2
    assert ada.authorise(ada.word(key, expires_at=ends))[0] == 201
    node = ada.server.client(key.sign_in_as_node(ada.server.url))
    await_true(
        lambda: node.call("POST", routes.REGISTER_NODE.path, b"{}").status == 401, "its end", 10
    )


def test_an_account_without_the_provider_role_gets_a_hint(server: ServerProcess) -> None:
    carl = Person(server, "carl")
    carl.api.put(routes.CHOOSE_ROLES.path, {"roles": ["consumer"]})
    status, problem = carl.authorise(carl.word(Wallet("carl's")))
    assert (status, problem["code"]) == (403, "forbidden")
    assert "potluck roles provider" in problem["hint"]


def test_an_unauthorised_key_does_not_sign_in(server: ServerProcess) -> None:
    api, stranger = server.client(), Wallet("nobody's key")
    challenge = api.post(routes.CHALLENGE.path, {})
    login_request = stranger.answer(challenge, statement=NODE_STATEMENT)
    status, problem = status_of(api, routes.NODE_LOGIN.path, login_request)
    assert (status, problem["code"]) == (401, "not_signed_in")


def test_a_message_for_people_does_not_sign_a_node_key_in(ada: Person) -> None:
    key = Wallet("confused")
    ada.authorise(ada.word(key))
    login_request = key.answer(ada.challenge(), statement="Sign in to this Potluck pool.")
    assert status_of(ada.api, routes.NODE_LOGIN.path, login_request)[0] == 401


def test_a_node_sign_in_is_good_once(ada: Person) -> None:
    key = Wallet("replayed")
    ada.authorise(ada.word(key))
    login_request = key.answer(ada.challenge(), statement=NODE_STATEMENT)
    with ThreadPoolExecutor(8) as threads:
        send = lambda _: status_of(ada.api, routes.NODE_LOGIN.path, login_request)[0]  # noqa: E731
        statuses = list(threads.map(send, range(16)))
    assert sorted(statuses) == [200] + [401] * 15


def test_a_node_key_does_nothing_but_provide(ada: Person) -> None:
    _, node = ada.node("humble")
    for path in (routes.ME.path, routes.LIST_TASKS.path, routes.LIST_NODE_KEYS.path):
        assert node.call("GET", path).status == 403
    assert ada.api.call("POST", routes.REGISTER_NODE.path, b"{}").status == 403


def test_a_key_speaks_for_its_own_node_only(
    server: ServerProcess, ada: Person, bert: Person
) -> None:
    _, client = ada.node("mine")
    node_id = client.post(routes.REGISTER_NODE.path, offer(server, Wallet("mine")))["node_id"]
    for foreign in (ada.node("my other one")[1], bert.node("bert's")[1]):
        for route in (routes.HEARTBEAT, routes.ACQUIRE_LEASES, routes.LEAVE):
            response = foreign.call("POST", route.url(node_id=node_id), b"{}")
            assert response.status == 404, route
    assert client.call("POST", routes.HEARTBEAT.url(node_id=node_id), b"{}").status == 200


BAD_STATEMENTS = [
    ("none", {"statements": []}),
    ("of another device", {"uuid": "GPU-other"}),
    ("for another server", {"origin": "https://elsewhere.example"}),
    ("an hour old", {"stated_at": int(time.time()) - 3_600}),
    ("by another key", {"signer": Wallet("somebody else")}),
]


@pytest.mark.parametrize(
    "change", [row[1] for row in BAD_STATEMENTS], ids=[row[0] for row in BAD_STATEMENTS]
)
def test_a_device_needs_the_keys_word_that_it_is_here(
    server: ServerProcess, ada: Person, change: dict[str, Any]
) -> None:
    _, node = ada.node("with statements")
    registration = offer(server, Wallet("with statements"), **dict(change))
    status, problem = status_of(node, routes.REGISTER_NODE.path, registration)
    assert (status, problem["code"]) == (400, "invalid_input")


def test_changes_of_keys_and_devices_are_in_the_audit(server: ServerProcess, ada: Person) -> None:
    key_id, node = ada.node("watched")
    node.post(routes.REGISTER_NODE.path, offer(server, Wallet("watched"), card="GPU-watched"))
    ada.revoke(key_id)
    entries = server.client().get(routes.AUDIT.path)["entries"]
    kinds = [entry["kind"] for entry in entries if entry["subject"] in (key_id, "GPU-watched")]
    assert kinds[::-1] == [
        *("node_key_authorised", "node_key_used", "device_bound"),
        *("node_key_revoked", "device_unbound"),
    ]


def offer(server: ServerProcess, key: Wallet, card: str | None = None, **changes: Any) -> Any:
    """A registration of one card, each test's its own, and what the key says about it."""
    uuid = card or f"{CARD}-{key.address[:10]}"
    signer = changes.pop("signer", key)
    origin, stated_uuid = changes.pop("origin", server.url), changes.pop("uuid", uuid)
    statements = changes.pop("statements", None)
    if statements is None:
        statements = [signer.state(origin, stated_uuid, **changes)]
    device = {"kind": "gpu", "uuid": uuid, "vendor": "V", "model": "M", "memory_bytes": 2**30}
    return {
        "description": {
            "name": "box",
            "platform": "linux",
            "python_version": "3.11",
            "potluck_version": "0.1.0",
            "cores": 1,
            "memory_bytes": 2**30,
            "disk_bytes": 2**30,
            "sandbox": {"driver": "bwrap", "memory": "cgroup v2", "processes": "cgroup v2"},
            "devices": [device],
        },
        "statements": statements,
    }
