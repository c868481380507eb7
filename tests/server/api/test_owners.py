"""An owner and his machine, over HTTP: terms, orders, history, earnings, and the last farewell."""

import json
from typing import Any

import pytest

from potluck.model.account import Scope
from potluck.wire import routes
from tests.processes import ServerProcess, await_true
from tests.security.people import SCRIPT, Person
from tests.wallets import Wallet


@pytest.fixture(scope="module")
def owner(server: ServerProcess) -> Person:
    return Person(server, "owner")


def patch(person: Person, change: dict[str, Any]) -> Any:
    path = routes.CHANGE_TERMS.url(node_id=person.node_id)
    return person.api.call("PATCH", path, json.dumps(change).encode())


def node(viewer: Person, person: Person) -> Any:
    return viewer.api.get(routes.GET_NODE.url(node_id=person.node_id))


def beat(person: Person, **status: Any) -> Any:
    api = person.server.client(person.node_token())
    return api.post(routes.HEARTBEAT.url(node_id=person.node_id), status)


def test_terms_orders_and_the_last_hour(server: ServerProcess) -> None:
    owner, stranger = Person(server, "owner"), Person(server, "stranger")
    response = patch(owner, {"price_micro_per_hour": 7, "is_paused": True})
    assert response.status == 202, response.data
    node_view = response.json()
    assert [device["availability"] for device in node_view["devices"]] == ["paused"]
    ordered = owner.api.post(routes.GIVE_ORDER.url(node_id=owner.node_id), {"order": "reclaim"})
    requests = ordered["wishes"]
    assert requests[0]["change"] == {"price_micro_per_hour": 7, "is_paused": True}
    assert requests[1]["order"] == {"order": "reclaim", "devices": []}
    assert node(stranger, owner)["wishes"] == []
    assert beat(owner, devices=[{"uuid": owner.uuid}])["wishes"] == requests
    assert node(stranger, owner)["devices"][0]["availability"] == "paused"
    status = {"uuid": owner.uuid, "temperature_celsius": 40.5, "others": 1}
    last_beat = beat(owner, devices=[status], wish=requests[-1]["number"])
    assert last_beat["wishes"] == []
    for viewer, others, denied in ((owner, 1, [owner.denied]), (stranger, None, [])):
        seen = node(viewer, owner)
        (device,) = seen["devices"]
        assert (seen["is_mine"], device["availability"]) == (viewer is owner, "available")
        assert (device["sample"]["temperature_celsius"], device["sample"]["others"]) == (
            40.5,
            others,
        )
        assert device["description"]["terms"]["deny"] == denied and device["chooses_accounts"]
    path = routes.DEVICE_HISTORY.url(device_id=owner.device_id)
    samples = owner.api.get(path)["samples"]
    assert [sample["temperature_celsius"] for sample in samples] == [None, 40.5]
    assert stranger.api.call("GET", path).status == 404


# What is wished for, the status of the answer, and a word of its sentence.
WRONG: list[tuple[dict[str, Any], int, str]] = [
    ({}, 400, "nothing"),
    ({"price": "1"}, 400, "price"),
    ({"price_micro_per_hour": -1}, 400, "price_micro_per_hour"),
    ({"hours": "never"}, 400, "hours"),
    ({"is_paused": True, "devices": ["GPU-none"]}, 404, "has no device 'GPU-none'"),
    ({"cores": 4, "devices": ["GPU-none"]}, 400, "cores"),
    ({"deny": ["0x12"]}, 400, "deny"),
]


def test_invalid_owner_requests_are_refused(owner: Person) -> None:
    before = node(owner, owner)["wishes"]
    for change, status, word in WRONG:
        response = patch(owner, change)
        assert response.status == status, response.data
        assert word in response.json()["detail"]
    assert node(owner, owner)["wishes"] == before


def test_earnings(server: ServerProcess, owner: Person) -> None:
    empty = owner.api.get(routes.EARNINGS.path)
    assert (empty["attempts"], empty["earned_micro"], empty["earned"]) == (0, 0, [])
    task_id = owner.api.post(routes.SUBMIT_TASK.path, {"spec": SCRIPT})["id"]

    def is_here() -> bool:
        beat(owner, devices=[{"uuid": owner.uuid}])
        attempts = owner.api.task(task_id)["attempts"]
        return any(attempt["node_id"] == owner.node_id for attempt in attempts)

    await_true(is_here, "the owner's machine has it")
    owner.api.post(routes.CANCEL_TASK.url(task_id=task_id), {})
    earnings = await_true(lambda: owner.api.get(routes.EARNINGS.path)["earned"], "it is counted")
    assert (earnings[0]["node_id"], earnings[0]["device_id"]) == (owner.node_id, owner.device_id)
    assert owner.api.get(f"{routes.EARNINGS.path}?until=2020-01-01T00:00:00Z")["attempts"] == 0
    stranger = server.client(server.sign_in(Wallet("who earns nothing")))
    assert stranger.get(routes.EARNINGS.path)["attempts"] == 0
    for query in (
        "since=yesterday",
        "since=2026-01-01T00:00:00",
        "until=9999-12-31T23:00:00-12:00",
    ):
        response = owner.api.call("GET", f"{routes.EARNINGS.path}?{query}")
        assert (response.status, response.json()["code"]) == (400, "invalid_input"), query


def test_a_node_that_leaves_for_good_leaves_no_key(server: ServerProcess) -> None:
    leaver, heir = Person(server, "leaving"), Person(server, "heir")
    api = server.client(leaver.node_token())
    path = routes.LEAVE.url(node_id=leaver.node_id)
    keys = {
        node_key["node_id"] for node_key in leaver.api.get(routes.LIST_NODE_KEYS.path)["node_keys"]
    }
    assert leaver.node_id in keys
    assert api.call("POST", path, b'{"is_for_good": 1}').status == 400
    assert api.call("POST", path, b'{"is_for_good": true}').status == 204
    assert api.call("POST", path, b"").status == 401, "the key is worth nothing"
    keys = {
        node_key["node_id"] for node_key in leaver.api.get(routes.LIST_NODE_KEYS.path)["node_keys"]
    }
    assert leaver.node_id not in keys
    entries = server.client().get(f"{routes.AUDIT.path}?limit=20")["entries"]
    events = {(entry["kind"], entry["actor"]) for entry in entries}
    assert {
        ("node_key_revoked", leaver.account_id),
        ("device_unbound", leaver.account_id),
    } <= events
    registration = heir.server.client(heir.node_token()).post(
        routes.REGISTER_NODE.path, heir.registration(leaver.uuid)
    )
    assert registration["unbound"] == [], "its device is anybody's"


def test_a_key_for_scripts_may_change_terms_if_it_was_made_for_that(
    server: ServerProcess, owner: Person
) -> None:
    path, body = routes.CHANGE_TERMS.url(node_id=owner.node_id), b'{"idle_minutes": 3}'
    for scope, status in ((Scope.NODES_WRITE, 202), (Scope.POOL_READ, 403)):
        assert server.client(owner.keys[scope]).call("PATCH", path, body).status == status
    assert node(owner, owner)["wishes"][-1]["change"] == {"idle_minutes": 3.0}
