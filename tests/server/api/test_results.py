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


def test_a_list_is_taken_once_and_each_is_answered(server: ServerProcess) -> None:
    me = server.client()
    said = {"tasks": [{"spec": SCRIPT}, {"spec": FUNCTION}, {"spec": SCRIPT, "allow_failures": 1}]}
    told = me.post("/v1/tasks/batch", said, Idempotency_Key="a list")["tasks"]
    assert [each["code"] for each in told] == ["", "", "invalid_input"]
    assert "Only an array may" in told[2]["detail"] and told[2]["hint"]
    again = me.post("/v1/tasks/batch", said, Idempotency_Key="a list")["tasks"]
    assert again[:2] == told[:2]
    kinds = [me.get(f"/v1/tasks/{each['task_id']}")["kind"] for each in told[:2]]
    assert kinds == ["script", "function"]
    for each in told[:2]:
        me.post(f"/v1/tasks/{each['task_id']}/cancel", {})


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


@pytest.mark.parametrize(("path", "body", "word"), WRONG, ids=[row[2] for row in WRONG])
def test_invalid_requests_get_a_sentence(
    server: ServerProcess, path: str, body: dict[str, Any], word: str
) -> None:
    problem = server.client().post(path, body)
    assert (problem["status"], problem["code"]) == (400, "invalid_input")
    assert word in problem["detail"]


def test_a_list_may_be_larger_than_other_bodies(server: ServerProcess) -> None:
    large = {**SCRIPT, "source": "#" * 500_000}
    me = server.client()
    told = me.post("/v1/tasks/batch", {"tasks": [{"spec": large}] * 10})["tasks"]
    assert all(each["task_id"] for each in told)
    answer = me.call("POST", "/v1/tasks/batch", b'"' + b"a" * 9_000_000 + b'"')
    assert answer.status == 413
    for each in told:
        me.post(f"/v1/tasks/{each['task_id']}/cancel", {})


def test_results_are_sent_in_the_requested_format(server: ServerProcess) -> None:
    me, somebody = server.client(), server.client(server.sign_in(Wallet("asks for results")))
    task = me.post("/v1/tasks", {"spec": FUNCTION, "delay_seconds": 3600})
    wanted = {"tasks": [{"task_id": task["id"]}]}
    assert me.post("/v1/results", wanted) == {"results": []}
    me.post(f"/v1/tasks/{task['id']}/cancel", {})
    ((found),) = me.post("/v1/results", {**wanted, "wait_seconds": 30})["results"]
    assert (found["state"], found["reason"], found["pieces"]) == ("cancelled", "cancelled", [])
    body = msgspec.json.encode(wanted)
    packed = me.call("POST", "/v1/results", body, Accept="application/msgpack")
    assert packed.headers["content-type"] == "application/msgpack"
    (same,) = msgspec.msgpack.decode(packed.data, type=Results).results
    assert same.task_id == task["id"]
    assert somebody.post("/v1/results", wanted)["code"] == "not_found"
    unknown = {"tasks": [{"task_id": NOTHING}]}
    assert me.post("/v1/results", unknown)["code"] == "not_found"
