"""Lists of tasks, and what functions gave, as a program sees them."""

import base64
from typing import Any

import msgspec
import pytest

from potluck.wire.results import Results
from tests.processes import ServerProcess
from tests.wallets import Wallet

SCRIPT = {"kind": "script", "filename": "a.py", "source": "print(1)"}
CODE = base64.b64encode(b"\x80code").decode()
FUNCTION = {
    "kind": "function",
    "name": "double",
    "code": {"data": CODE},
    "inputs": {"data": ""},
    "python": "3.11",
}
NOTHING = "task_01jd0000000000000000000000"


def test_a_batch_is_stored_once_and_each_task_gets_an_answer(server: ServerProcess) -> None:
    me = server.client()
    request = {
        "tasks": [{"spec": SCRIPT}, {"spec": FUNCTION}, {"spec": SCRIPT, "allow_failures": 1}]
    }
    outcomes = me.post("/v1/tasks/batch", request, Idempotency_Key="a list")["tasks"]
    assert [outcome["code"] for outcome in outcomes] == ["", "", "invalid_input"]
    assert "Only an array may" in outcomes[2]["detail"] and outcomes[2]["hint"]
    repeated_outcomes = me.post("/v1/tasks/batch", request, Idempotency_Key="a list")["tasks"]
    assert repeated_outcomes[:2] == outcomes[:2]
    kinds = [me.get(f"/v1/tasks/{outcome['task_id']}")["kind"] for outcome in outcomes[:2]]
    assert kinds == ["script", "function"]
    for outcome in outcomes[:2]:
        me.post(f"/v1/tasks/{outcome['task_id']}/cancel", {})


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("/v1/tasks/batch", {"tasks": []}, "at least 1 "),
    ("/v1/tasks/batch", {"tasks": [{"spec": SCRIPT}] * 251}, "at most 250"),
    ("/v1/tasks/batch", {"tasks": [{"spec": SCRIPT, "role": "admin"}]}, "role"),
    ("/v1/tasks", {"spec": {**FUNCTION, "python": "2.7"}}, "python"),
    ("/v1/tasks", {"spec": {**FUNCTION, "code": {"data": "no base64"}}}, "code"),
    ("/v1/tasks", {"spec": {"kind": "container", "image": "-v /:/host"}}, "image"),
    ("/v1/tasks", {"spec": {"kind": "command", "command": []}}, "command"),
    ("/v1/results", {"tasks": [{"task_id": "node_01jd0000000000000000000000"}]}, "task_id"),
    ("/v1/results", {"tasks": [{"task_id": NOTHING, "behind": -1}]}, "behind"),
    ("/v1/results", {"tasks": [{"task_id": NOTHING}], "wait_seconds": 61}, "wait_seconds"),
]


@pytest.mark.parametrize(("path", "body", "fragment"), WRONG, ids=[row[2] for row in WRONG])
def test_invalid_requests_get_a_sentence(
    server: ServerProcess, path: str, body: dict[str, Any], fragment: str
) -> None:
    problem = server.client().post(path, body)
    assert (problem["status"], problem["code"]) == (400, "invalid_input")
    assert fragment in problem["detail"]


def test_a_list_may_be_larger_than_other_bodies(server: ServerProcess) -> None:
    large = {**SCRIPT, "source": "#" * 500_000}
    me = server.client()
    outcomes = me.post("/v1/tasks/batch", {"tasks": [{"spec": large}] * 10})["tasks"]
    assert all(outcome["task_id"] for outcome in outcomes)
    response = me.call("POST", "/v1/tasks/batch", b'"' + b"a" * 9_000_000 + b'"')
    assert response.status == 413
    for outcome in outcomes:
        me.post(f"/v1/tasks/{outcome['task_id']}/cancel", {})


def test_results_are_sent_in_the_requested_format(server: ServerProcess) -> None:
    me, stranger = server.client(), server.client(server.sign_in(Wallet("asks for results")))
    task = me.post("/v1/tasks", {"spec": FUNCTION, "delay_seconds": 3600})
    request = {"tasks": [{"task_id": task["id"]}]}
    assert me.post("/v1/results", request) == {"results": []}
    me.post(f"/v1/tasks/{task['id']}/cancel", {})
    ((result),) = me.post("/v1/results", {**request, "wait_seconds": 30})["results"]
    assert (result["state"], result["reason"], result["pieces"]) == ("cancelled", "cancelled", [])
    body = msgspec.json.encode(request)
    packed = me.call("POST", "/v1/results", body, Accept="application/msgpack")
    assert packed.headers["content-type"] == "application/msgpack"
    (same,) = msgspec.msgpack.decode(packed.data, type=Results).results
    assert same.task_id == task["id"]
    assert stranger.post("/v1/results", request)["code"] == "not_found"
    unknown = {"tasks": [{"task_id": NOTHING}]}
    assert me.post("/v1/results", unknown)["code"] == "not_found"
