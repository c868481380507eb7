"""What makes something may be sent again: the same answer, and no second thing."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import urllib3

from tests.processes import Api, ServerProcess
from tests.security.people import WEBHOOK
from tests.wallets import Wallet

TASK = {"spec": {"kind": "script", "filename": "a.py", "source": "print(1)"}}
KEY = {"name": "ci", "scopes": ["pool:read"]}
# Every operation that makes something: what is asked, and asked otherwise.
MAKING: dict[str, tuple[Any, Any]] = {
    "/v1/tasks": (TASK, {**TASK, "name": "another"}),
    "/v1/tasks/batch": ({"tasks": [TASK]}, {"tasks": [{**TASK, "name": "another"}]}),
    "/v1/me/keys": (KEY, {**KEY, "name": "another"}),
    "/v1/invites": ({"uses": 3}, {"uses": 4}),
    "/v1/webhooks": (WEBHOOK, {**WEBHOOK, "name": "another"}),
    "/v1/accounts/{account_id}/grants": ({"amount_micro": 5}, {"amount_micro": 6}),
}


def said(api: Api, path: str, body: Any, key: str) -> urllib3.BaseHTTPResponse:
    return api.call("POST", path, json.dumps(body).encode(), Idempotency_Key=key)


@pytest.mark.parametrize("path", MAKING)
def test_the_same_again_is_answered_the_same(server: ServerProcess, path: str) -> None:
    api = server.client()
    body, other = MAKING[path]
    url = path.format(account_id=api.get("/v1/me")["id"])
    first, repeated = (said(api, url, body, f"once {path}") for _ in range(2))
    assert (first.status, repeated.status) == (first.status, first.status) and first.status < 300
    assert _lasting(first) == _lasting(repeated)
    changed = said(api, url, other, f"once {path}")
    if path == "/v1/tasks/batch":  # each of many is answered for itself
        assert changed.json()["tasks"][0]["code"] == "conflict"
    else:
        assert (changed.status, changed.json()["code"]) == (409, "conflict")
    assert said(api, url, body, f"once more {path}").status == first.status


@pytest.mark.parametrize("items", [None, 3])
@pytest.mark.parametrize("other", [{"all_items": True}, {"secrets": {"A": "b"}}])
def test_a_retry_again_is_the_same_retry(
    server: ServerProcess, items: int | None, other: dict[str, Any]
) -> None:
    """Also where the other wish would come to the same: by the body it is another."""
    api, name = server.client(), f"retry of {items}, {list(other)}"
    array = {} if items is None else {"items": items}
    first = api.post("/v1/tasks", {**TASK, "requirements": {"memory_bytes": 2**50}, **array})["id"]
    api.call("POST", f"/v1/tasks/{first}/cancel")
    url = f"/v1/tasks/{first}/retry"
    retried, repeated = (said(api, url, {}, name).json() for _ in range(2))
    assert retried["retry_of"] == first != retried["id"] == repeated["id"]
    changed = said(api, url, other, name)
    assert (changed.status, changed.json()["code"]) == (409, "conflict")
    assert said(api, url, other, f"{name}, otherwise").json()["id"] != retried["id"]
    conflicting = said(api, "/v1/tasks", TASK, name)
    assert (conflicting.status, conflicting.json()["code"]) == (409, "conflict")


def _lasting(response: urllib3.BaseHTTPResponse) -> Any:
    if not response.data:
        return None
    content = response.json()
    return content.get("id") or content


def test_credit_is_granted_once_to_ten_concurrent_requests(server: ServerProcess) -> None:
    poor = server.client(server.sign_in(Wallet("somebody poor")))
    url = f"/v1/accounts/{poor.get('/v1/me')['id']}/grants"

    def grant(_: int) -> int:
        return int(said(server.client(), url, {"amount_micro": 7}, "ten times").status)

    server.client()
    with ThreadPoolExecutor(5) as threads:
        assert set(threads.map(grant, range(10))) == {204}
    assert poor.get("/v1/me")["available_micro"] == 7


def test_a_rotation_is_repeated_as_long_as_its_secret_is_the_newest(server: ServerProcess) -> None:
    api = server.client(server.sign_in(Wallet("who rotates")))
    first_id, other = (api.post("/v1/webhooks", WEBHOOK)["webhook"]["id"] for _ in range(2))

    def rotated(webhook_id: str, key: str) -> urllib3.BaseHTTPResponse:
        return api.call("POST", f"/v1/webhooks/{webhook_id}/rotate", Idempotency_Key=key)

    first, repeated = rotated(first_id, "first"), rotated(first_id, "first")
    assert first.status == repeated.status == 200
    assert first.json()["secret"] == repeated.json()["secret"]
    assert rotated(other, "first").status == 409, "another webhook is another request"
    assert rotated(first_id, "second").json()["secret"] != first.json()["secret"]
    late_rotation = rotated(first_id, "first")
    assert (late_rotation.status, late_rotation.json()["code"]) == (409, "conflict")


def test_a_key_is_the_caller_s_own(server: ServerProcess) -> None:
    first, two = (server.client(server.sign_in(Wallet(name))) for name in ("one", "two"))
    created = [said(api, "/v1/me/keys", KEY, "shared").json() for api in (first, two)]
    assert created[0]["secret"] != created[1]["secret"]
    assert created[0]["key"]["id"] != created[1]["key"]["id"]


def test_a_repeated_request_does_not_recreate_a_revoked_key(server: ServerProcess) -> None:
    api = server.client()
    created = said(api, "/v1/me/keys", KEY, "revoked later").json()
    assert server.client(created["secret"]).call("GET", "/v1/nodes").status == 200
    api.call("DELETE", f"/v1/me/keys/{created['key']['id']}")
    repeated = said(api, "/v1/me/keys", KEY, "revoked later")
    assert (repeated.status, repeated.json()["code"]) == (409, "conflict")
    assert server.client(created["secret"]).call("GET", "/v1/nodes").status == 401


@pytest.mark.parametrize("path", ["/v1/tasks", "/v1/me/keys"])
@pytest.mark.parametrize("key", ["", "x" * 201, "é"])
def test_a_key_that_is_none_is_refused(server: ServerProcess, path: str, key: str) -> None:
    assert said(server.client(), path, MAKING[path][0], key).status == 400
