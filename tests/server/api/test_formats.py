"""The same routes in MessagePack: asked and answered, as strictly as in JSON."""

import json
from typing import Any

import msgspec
import pytest
import urllib3

from potluck.wire import codec
from potluck.wire.consumer import TaskPage, TaskView
from tests.fuzz.hostile_variants import PACKED_VALUES
from tests.processes import Api, ServerProcess
from tests.wallets import Wallet

PACKED = "application/msgpack"
TASK = {"spec": {"kind": "script", "filename": "a.py", "source": "print(1)"}}


@pytest.fixture(scope="module")
def api(server: ServerProcess) -> Api:
    return server.client(server.sign_in(Wallet("somebody packed")))


def packed(api: Api, value: Any, path: str = "/v1/tasks") -> urllib3.BaseHTTPResponse:
    body = value if isinstance(value, bytes) else msgspec.msgpack.encode(value)
    return api.call("POST", path, body, Content_Type=PACKED)


def test_a_task_is_submitted_and_read_in_messagepack(api: Api) -> None:
    body = msgspec.msgpack.encode(TASK)
    created = api.call("POST", "/v1/tasks", body, Content_Type=PACKED, Accept=PACKED)
    assert (created.status, created.headers["content-type"]) == (201, PACKED)
    task = codec.decode_packed(created.data, TaskView)
    listing = api.call("GET", "/v1/tasks", Accept=PACKED)
    (task_view,) = codec.decode_packed(listing.data, TaskPage).tasks
    assert task_view.id == task.id and listing.headers["vary"] == "Accept"
    assert json.loads(api.call("GET", f"/v1/tasks/{task.id}").data)["id"] == task.id


def test_times_are_timestamps_and_bytes_are_bytes(api: Api) -> None:
    challenge = api.call("POST", "/v1/auth/challenge", Accept=PACKED)
    raw = msgspec.msgpack.decode(challenge.data)
    assert raw["expires_at"].tzinfo is not None, "a timestamp, and no text"


def test_the_older_name_is_understood(api: Api) -> None:
    body = msgspec.msgpack.encode(TASK)
    response = api.call("POST", "/v1/tasks", body, Content_Type="application/x-msgpack")
    assert (response.status, response.headers["content-type"]) == (201, "application/json")


# nil is a right name, and a right delay: none.
BAD = [("it", name) for name in PACKED_VALUES] + [
    (place, name) for place in ("name", "delay_seconds") for name in PACKED_VALUES if name != "nil"
]


@pytest.mark.parametrize(("place", "name"), BAD)
def test_bad_messagepack_gets_a_sentence(api: Api, place: str, name: str) -> None:
    raw, mark = PACKED_VALUES[name], "@mark@"
    marked = msgspec.msgpack.encode({**TASK, place: mark})
    body = raw if place == "it" else marked.replace(msgspec.msgpack.encode(mark), raw)
    response = packed(api, body)
    assert response.status == 400, response.data
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["code"] == "invalid_input" and len(problem["detail"]) > 10


def test_truncated_messagepack_is_reported(api: Api) -> None:
    response = packed(api, msgspec.msgpack.encode(TASK)[:-3])
    assert response.json()["detail"] == "The MessagePack in the body is incomplete."


def test_messagepack_refuses_what_json_refuses(api: Api) -> None:
    assert packed(api, {**TASK, "role": "admin"}).status == 400
    assert packed(api, {**TASK, "priority": "5"}).status == 400
    assert packed(api, {**TASK, "priority": True}).status == 400
    assert packed(api, msgspec.msgpack.encode(TASK) + b"\xc0").status == 400
    assert packed(api, b"\xc6\x00\xa0\x00\x00" + bytes(10 * 2**20)).status == 413


ACCEPTS = [
    # (what the client says that it takes, what it is given)
    ("", "application/json"),
    ("*/*", "application/json"),
    ("application/*", "application/json"),
    ("application/json, application/msgpack", "application/json"),
    ("application/msgpack", PACKED),
    ("application/x-msgpack", PACKED),
    ("APPLICATION/MSGPACK", PACKED),
    ("application/msgpack, */*;q=0.1", PACKED),
    ("application/msgpack;q=0.5, application/json;q=0.4", PACKED),
    ("application/msgpack;q=0.5, application/json", "application/json"),
    ("application/json;q=0, application/msgpack;q=0.1", PACKED),
    ("text/html, application/xhtml+xml, */*;q=0.8", "application/json"),
    ("application/msgpack;q=nonsense", PACKED),
]


@pytest.mark.parametrize(("accept", "kind"), ACCEPTS)
def test_the_answer_is_what_the_client_takes(api: Api, accept: str, kind: str) -> None:
    response = api.call("GET", "/v1/me", Accept=accept)
    assert (response.status, response.headers["content-type"]) == (200, kind)


@pytest.mark.parametrize("accept", ["text/html", "application/json;q=0", "image/*", "garbage"])
def test_an_unacceptable_format_is_refused_before_the_change(api: Api, accept: str) -> None:
    before = len(api.get("/v1/tasks?limit=500")["tasks"])
    response = api.call("POST", "/v1/tasks", json.dumps(TASK).encode(), Accept=accept)
    assert (response.status, response.json()["code"]) == (406, "not_acceptable")
    assert "application/msgpack" in response.json()["hint"]
    assert len(api.get("/v1/tasks?limit=500")["tasks"]) == before


def test_a_problem_is_json_for_everybody(api: Api) -> None:
    response = api.call("GET", "/v1/tasks/task_x", Accept=PACKED)
    assert (response.status, response.headers["content-type"]) == (404, "application/problem+json")


def test_bytes_and_streams_are_not_negotiated(server: ServerProcess, api: Api) -> None:
    task_id = api.submit("print(1)")
    api.call("POST", f"/v1/tasks/{task_id}/cancel")
    stream = api.call("GET", f"/v1/tasks/{task_id}/follow", Accept="application/json")
    assert stream.status == 200 and stream.headers["content-type"].startswith("text/event-stream")
    missing = api.call("GET", f"/v1/blobs/{'0' * 64}", Accept="image/png")
    assert missing.status == 404
    assert server.client("").call("GET", "/schema/openapi.json", Accept="text/html").status == 200
