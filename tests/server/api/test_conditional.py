"""Polling costs little: what a client has is not sent again. And pages say where they go on."""

import hashlib
import json
import re
from functools import partial

import pytest

from tests.processes import Api, ServerProcess, await_true
from tests.wallets import Wallet


@pytest.fixture(scope="module")
def api(server: ServerProcess) -> Api:
    return server.client(server.sign_in(Wallet("somebody who polls")))


@pytest.fixture(scope="module")
def task_id(api: Api) -> str:
    """Of a task that is over: why one waits changes by itself."""
    task_id = api.submit("print(1)", name="polled")
    api.call("POST", f"/v1/tasks/{task_id}/cancel")
    return task_id


POLLED = [
    *("/v1/tasks/{task_id}", "/v1/tasks", "/v1/nodes", "/v1/devices", "/v1/me"),
    *("/v1/tasks/{task_id}/files", "/v1/tasks/{task_id}/logs", "/v1/tasks/{task_id}/attempts"),
    *("/schema/openapi.json", "/healthz", "/v1/me/keys", "/v1/pool"),
]


@pytest.mark.parametrize("path", POLLED)
def test_unchanged_responses_are_not_sent_again(api: Api, task_id: str, path: str) -> None:
    url = path.format(task_id=task_id)
    for form in ("{}", "W/{}", '"another", {}', "*"):
        # Nodes come and go meanwhile; sooner or later nothing has changed between two calls.
        await_true(partial(_is_known, api, url, form), f"{form} is known at {url}")
    changed = api.call("GET", url, If_None_Match='"another"')
    assert changed.status == 200 and changed.data


def _is_known(api: Api, url: str, form: str) -> bool:
    first = api.call("GET", url)
    etag = first.headers["etag"]
    assert first.status == 200 and re.fullmatch(r'"[0-9a-f]{32}"', etag)
    repeated = api.call("GET", url, If_None_Match=form.format(etag))
    return (repeated.status, repeated.data, repeated.headers["etag"]) == (304, b"", etag)


def test_a_change_is_sent(api: Api) -> None:
    task_id = api.submit("print(1)")
    etag = api.call("GET", f"/v1/tasks/{task_id}").headers["etag"]
    api.call("POST", f"/v1/tasks/{task_id}/cancel")
    after = api.call("GET", f"/v1/tasks/{task_id}", If_None_Match=etag)
    assert (after.status, after.json()["state"]) == (200, "cancelled")


def test_the_formats_have_names_of_their_own(api: Api) -> None:
    plain, packed = (
        api.call("GET", "/v1/me", Accept=kind).headers["etag"]
        for kind in ("application/json", "application/msgpack")
    )
    assert plain != packed
    assert (
        api.call("GET", "/v1/me", Accept="application/msgpack", If_None_Match=plain).status == 200
    )


def test_a_foreign_task_is_not_found_whatever_one_has(server: ServerProcess, task_id: str) -> None:
    stranger = server.client(server.sign_in(Wallet("somebody who guesses")))
    assert stranger.call("GET", f"/v1/tasks/{task_id}", If_None_Match="*").status == 404


def test_bytes_that_one_has_are_not_sent_again(api: Api) -> None:
    data = b"potluck" * 100
    blob = {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
    upload = api.post("/v1/uploads", {"blob": blob})["upload_id"]
    octets = "application/octet-stream"
    api.call("PUT", f"/v1/uploads/{upload}/parts/0", data, Content_Type=octets)
    api.call("POST", f"/v1/uploads/{upload}/finish")
    first = api.call("GET", f"/v1/blobs/{blob['sha256']}")
    repeated = api.call("GET", f"/v1/blobs/{blob['sha256']}", If_None_Match=first.headers["etag"])
    assert (first.data, repeated.status, repeated.data) == (data, 304, b"")


@pytest.mark.parametrize("name", ["If_Match", "If_None_Match", "If_Unmodified_Since"])
def test_a_failed_precondition_changes_nothing(api: Api, name: str) -> None:
    body = json.dumps({"roles": ["consumer"]}).encode()
    response = api.call("PUT", "/v1/me/roles", body, **{name: '"a version"'})
    assert (response.status, response.json()["code"]) == (412, "precondition_failed")
    assert api.call("PUT", "/v1/me/roles", body, If_Match="*").status == 200


def test_nodes_come_in_pages(server: ServerProcess) -> None:
    for name in ("shed", "attic", "cellar"):
        registration = server.node(name).post("/v1/nodes", _offer(server, Wallet(name)))
        assert "node_id" in registration, registration
    api, path, node_ids = server.client(), "/v1/nodes?limit=2", []
    while path:
        page = api.call("GET", path)
        node_ids += [node["id"] for node in page.json()["nodes"]]
        path = page.headers.get("link", "").partition(">")[0].lstrip("<")
    assert node_ids == sorted(node_ids) and len(set(node_ids)) == 3
    assert api.call("GET", "/v1/nodes?cursor=nonsense").status == 400


def _offer(server: ServerProcess, key: Wallet) -> dict[str, object]:
    uuid = key.address
    device = {"kind": "cpu", "uuid": uuid, "vendor": "v", "model": "m", "memory_bytes": 1}
    description = {
        "name": "a node",
        "platform": "linux",
        "python_version": "3.11",
        "cores": 1,
        "potluck_version": "0",
        "memory_bytes": 1,
        "disk_bytes": 1,
        "devices": [device],
        "sandbox": {"driver": "bwrap", "memory": "cgroup v2", "processes": "cgroup v2"},
    }
    return {"description": description, "statements": [key.state(server.url, uuid)]}


def test_a_page_links_to_the_next(server: ServerProcess) -> None:
    api = server.client(server.sign_in(Wallet("somebody who reads on")))
    submitted = [api.submit("print(1)", name="a & b") for _ in range(3)]
    path, task_ids = "/v1/tasks?limit=2&name=a+%26+b&state=queued", []
    while path:
        page = api.call("GET", path)
        task_ids += [task["id"] for task in page.json()["tasks"]]
        link = page.headers.get("link", "")
        link_match = re.fullmatch(r'<([^>]+)>; rel="next"', link)
        assert bool(link_match) == (page.json()["next_cursor"] is not None)
        path = link_match[1] if link_match else ""
    assert task_ids == submitted[::-1]
