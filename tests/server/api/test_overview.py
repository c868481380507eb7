"""Reads for people who look: counts, the market, one's own machines, templates, saved views."""

import hashlib
from typing import Any

import pytest

from potluck.wire import routes
from tests.processes import Api, ServerProcess
from tests.security.people import SCRIPT, TASK, Person
from tests.wallets import Wallet


@pytest.fixture
def ann(server: ServerProcess, request: pytest.FixtureRequest) -> Api:
    return server.client(server.sign_in(Wallet(f"looks: {request.node.name}")))


@pytest.fixture(scope="module")
def owner(server: ServerProcess) -> Person:
    return Person(server, "an owner who looks")


def counts(api: Api, query: str = "") -> dict[str, int]:
    counts_by_state: dict[str, int] = api.get(f"{routes.TASK_COUNTS.path}{query}")["counts"]
    return {state: number for state, number in counts_by_state.items() if number}


def test_tasks_are_counted_by_state(ann: Api, server: ServerProcess) -> None:
    assert counts(ann) == {}
    for name in ("a.py", "b.py", "a.py"):
        last = ann.post(routes.SUBMIT_TASK.path, {**TASK, "name": name})["id"]
    ann.post(routes.CANCEL_TASK.url(task_id=last), {})
    assert counts(ann) == {"queued": 2, "cancelled": 1}
    assert counts(ann, "?name=a.py") == {"queued": 1, "cancelled": 1}
    assert counts(ann, "?kind=script") == {"queued": 2, "cancelled": 1}
    assert counts(ann, "?kind=command") == counts(ann, "?until=2020-01-01T00:00:00Z") == {}
    overview = ann.get(routes.TASK_COUNTS.path)
    assert set(overview["counts"]) >= {"queued", "running", "succeeded", "failed"}
    assert overview["counted_tasks"] == 10_000
    assert ann.get(f"{routes.TASK_COUNTS.path}?kind=dream")["status"] == 400
    stranger = server.client(server.sign_in(Wallet("counts nothing")))
    assert counts(stranger) == {}


def test_the_market_shows_offered_devices(server: ServerProcess, owner: Person, ann: Api) -> None:
    node = server.client(owner.node_token())
    node.post(
        routes.HEARTBEAT.url(node_id=owner.node_id), {}
    )  # it may have been silent for a while
    (device,) = ann.get(f"{routes.LIST_DEVICES.path}?limit=100")["devices"][:1] or [None]
    assert device is not None
    market = ann.get(routes.MARKET.path)
    offered = {model["model"]: model for model in market["models"]}
    assert device["description"]["model"] in offered
    model = offered[device["description"]["model"]]
    assert (
        model["devices"] >= 1
        and sum(price["devices"] for price in model["prices"]) == (model["devices"])
    )
    assert market["counted_tasks"] == 10_000 and market["at"]


def test_my_machines_alone(server: ServerProcess, owner: Person, ann: Api) -> None:
    Person(server, "another owner who looks")
    node_ids = [node["id"] for node in ann.get(routes.LIST_NODES.path)["nodes"]]
    assert len(node_ids) >= 2
    path = f"{routes.LIST_NODES.path}?mine=true"
    assert [node["id"] for node in owner.api.get(path)["nodes"]] == [owner.node_id]
    assert ann.get(path)["nodes"] == []
    page = owner.api.get(f"{path}&limit=1")
    following = owner.api.get(f"{path}&limit=1&cursor={page['next_cursor']}")
    assert following["nodes"] == []
    assert owner.api.get(f"{routes.LIST_NODES.path}?mine=perhaps")["status"] == 400


def test_anybody_may_see_how_to_join(server: ServerProcess) -> None:
    response = server.client("").get(routes.JOINING.path)
    assert (response["url"], response["registration"]) == (server.url, "open")
    assert response["installers"]["pip"] == server.first["join"]
    assert response["provide"] == f"potluck provide {server.url}"
    assert response["has_private_authority"] is False
    page = server.client("").call("GET", "/pages/join").data.decode()
    assert response["run"] in page


def test_a_template_can_be_submitted_without_changes(ann: Api) -> None:
    templates = {
        template["name"]: template for template in ann.get(routes.LIST_TEMPLATES.path)["templates"]
    }
    assert {"hello", "mandelbrot", "k-means"} <= set(templates)
    hello = templates["hello"]
    assert hello["request"]["spec"]["arguments"] == ["--name=world"]
    assert hello["request"]["requirements"]["memory_bytes"] == 256 * 2**20
    assert hello["parameters"][0]["default"] == "world" and hello["files"] == []
    for template in templates.values():
        request = {**template["request"]}
        files = [
            {"path": file["path"], "blob": uploaded(ann, file["text"].encode())}
            for file in template["files"]
        ]
        request["spec"] = {**request["spec"], "files": files}
        task = ann.post(routes.SUBMIT_TASK.path, request)
        assert task.get("name") == template["name"], task
        ann.post(routes.CANCEL_TASK.url(task_id=task["id"]), {})


def uploaded(api: Api, data: bytes) -> dict[str, Any]:
    blob = {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
    upload = api.post(routes.BEGIN_UPLOAD.path, {"blob": blob})
    if not upload["complete"]:
        part = routes.PUT_PART.url(upload_id=upload["upload_id"], number="0")
        kind = {"Content_Type": "application/octet-stream"}
        assert api.call("PUT", part, data, **kind).status == 200
        assert api.post(routes.FINISH_UPLOAD.url(upload_id=upload["upload_id"]), {})["complete"]
    return blob


def test_a_request_can_be_submitted_again(ann: Api, server: ServerProcess) -> None:
    request = {
        "spec": {**SCRIPT, "arguments": ["one"], "environment": {"PLAIN": "yes"}},
        "name": "first",
        "requirements": {"device_kind": "gpu", "memory_bytes": 2**30},
        "secrets": {"TOKEN": "planted-request-0123456789"},
    }
    task_id = ann.post(routes.SUBMIT_TASK.path, request)["id"]
    stored_request = ann.get(routes.TASK_REQUEST.url(task_id=task_id))
    assert stored_request["secret_count"] == 1 and "planted" not in str(stored_request)
    assert stored_request["request"]["spec"]["arguments"] == ["one"]
    assert stored_request["request"]["requirements"]["device_kind"] == "gpu"
    second_task = ann.post(routes.SUBMIT_TASK.path, {**stored_request["request"], "name": "second"})
    assert second_task["name"] == "second"
    stranger = server.client(server.sign_in(Wallet("asks for a request")))
    assert stranger.get(routes.TASK_REQUEST.url(task_id=task_id))["status"] == 404


VIEW = {"page": "tasks", "name": "What failed ✗", "query": "state=failed&name=a%20b"}


def test_views_are_saved_for_one_account(ann: Api, server: ServerProcess) -> None:
    path = routes.LIST_VIEWS.path
    assert ann.get(path) == {"views": []}
    assert ann.put(path, {"views": [VIEW]}) == {"views": [VIEW]} == ann.get(path)
    stranger = server.client(server.sign_in(Wallet("has no views")))
    assert stranger.get(path) == {"views": []}
    assert ann.put(path, {"views": []}) == {"views": []} == ann.get(path)
    largest = [{**VIEW, "name": f"{number}" * 30, "query": "x" * 1_000} for number in range(10, 60)]
    assert ann.put(path, {"views": largest})["views"] == largest


@pytest.mark.parametrize(
    "views",
    [
        [VIEW] * 51,
        [{**VIEW, "name": ""}],
        [{**VIEW, "name": "two\nlines"}],
        [{**VIEW, "query": "x" * 1_001}],
        [{**VIEW, "query": "with space"}],
        [{**VIEW, "page": "Tasks/../x"}],
        [{**VIEW, "more": 1}],
        {},
    ],
)
def test_a_wrong_view_is_refused(ann: Api, views: Any) -> None:
    assert ann.put(routes.LIST_VIEWS.path, {"views": views})["status"] == 400
