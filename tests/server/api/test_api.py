"""The API as a program sees it: strict input, problem details, never a 500."""

import json

import msgspec
import pytest

from tests.processes import ServerProcess
from tests.wallets import Wallet

SCRIPT = {"kind": "script", "filename": "a.py", "source": "print(1)"}


def with_field(**changes: object) -> bytes:
    return json.dumps({"spec": SCRIPT, **changes}).encode()


def with_source(raw: bytes) -> bytes:
    return b'{"spec":{"kind":"script","filename":"a.py","source":' + raw + b"}}"


BAD_BODIES = [
    # (what is wrong with it, the body, the status)
    ("empty", b"", 400),
    ("not JSON", b"{", 400),
    ("NaN", b'{"spec":%s,"priority":NaN}' % json.dumps(SCRIPT).encode(), 400),
    ("Infinity", b'{"spec":%s,"priority":1e999}' % json.dumps(SCRIPT).encode(), 400),
    ("unknown field", with_field(role="admin"), 400),
    ("wrong type", with_field(priority="5"), 400),
    ("bool for int", with_field(priority=True), 400),
    ("huge integer", with_field(priority=2**70), 400),
    ("negative", with_field(max_attempts=-1), 400),
    ("NUL", with_source(b'"\\u0000"'), 400),
    ("lone surrogate", with_source(b'"\\ud800"'), 400),
    ("invalid UTF-8", with_source(b'"\xff"'), 400),
    ("deep nesting", b"[" * 100_000, 400),
    ("deep nesting inside", b'{"spec":' + b'{"a":' * 50_000, 400),
    ("a path as file name", with_field(spec={**SCRIPT, "filename": "../x"}), 400),
    ("control characters", with_field(name="a\u001b[31m"), 400),
    ("10 MB", b'"' + b"a" * 10_000_000 + b'"', 413),
    ("bad script block", with_source(b'"# /// script\\n# dependencies = 5\\n# ///"'), 400),
]


@pytest.mark.parametrize(
    ("body", "status"), [row[1:] for row in BAD_BODIES], ids=[r[0] for r in BAD_BODIES]
)
def test_a_bad_body_gets_a_sentence(server: ServerProcess, body: bytes, status: int) -> None:
    response = server.client().call("POST", "/v1/tasks", body)
    problem = response.json()
    assert response.status == status, problem
    assert response.headers["content-type"] == "application/problem+json"
    assert problem["status"] == status and len(problem["detail"]) > 10
    assert problem["code"] in {"invalid_input", "too_large"}
    assert "Traceback" not in response.data.decode()


BAD_REQUESTS = [
    # (method, path, the status, the code)
    ("GET", "/nowhere", 404, "not_found"),
    ("GET", "/v1/tasks/task_x", 404, "not_found"),
    ("GET", "/v1/tasks/task_01jd0000000000000000000000", 404, "not_found"),
    ("GET", "/v1/tasks/%00", 404, "not_found"),
    ("GET", "/v1/tasks/%ff", 404, "not_found"),
    ("GET", "/v1/tasks/task_01jd0000000000000000000000/logs", 404, "not_found"),
    ("GET", "/v1/tasks/task_01jd0000000000000000000000/follow", 404, "not_found"),
    ("POST", "/v1/tasks/task_01jd0000000000000000000000/cancel", 404, "not_found"),
    ("GET", "/v1/tasks?limit=0", 400, "invalid_input"),
    ("GET", "/v1/tasks?limit=501", 400, "invalid_input"),
    ("GET", "/v1/tasks?limit=many", 400, "invalid_input"),
    ("GET", "/v1/tasks?state=lost", 400, "invalid_input"),
    ("GET", "/v1/tasks?cursor=%00", 400, "invalid_input"),
    ("DELETE", "/v1/tasks", 405, "method_not_allowed"),
    ("POST", "/v1/nodes/node_x/leases", 403, "forbidden"),
]


@pytest.mark.parametrize(("method", "path", "status", "code"), BAD_REQUESTS)
def test_a_bad_request_gets_a_sentence(
    server: ServerProcess, method: str, path: str, status: int, code: str
) -> None:
    response = server.client().call(method, path)
    assert (response.status, response.json()["code"]) == (status, code)


@pytest.mark.parametrize("token", ["", "wrong", "x" * 100_000])
def test_without_a_valid_token_nothing_is_shown(server: ServerProcess, token: str) -> None:
    response = server.client(token).call("GET", "/v1/me")
    assert (response.status, response.json()["code"]) == (401, "not_signed_in")
    assert response.headers["www-authenticate"] == "Bearer"


def test_only_an_admin_gives_credit(server: ServerProcess) -> None:
    operator, bob = server.client(), server.client(server.sign_in(Wallet("bob")))
    path = f"/v1/accounts/{bob.get('/v1/me')['id']}/grants"
    assert operator.call("POST", path, b'{"amount_micro": 5}').status == 204
    assert bob.get("/v1/me")["available_micro"] == 5
    assert bob.call("POST", path, b'{"amount_micro": 5}').status == 403
    nobodys = "/v1/accounts/account_x/grants"
    assert operator.call("POST", nobodys, b'{"amount_micro": 5}').status == 404


def test_another_accounts_task_does_not_exist(server: ServerProcess) -> None:
    operator = server.client()
    bob = server.client(server.sign_in(Wallet("bea")))
    task_id = operator.submit("print(1)")
    for method, path in (
        ("GET", f"/v1/tasks/{task_id}"),
        ("GET", f"/v1/tasks/{task_id}/logs"),
        ("GET", f"/v1/tasks/{task_id}/follow"),
        ("POST", f"/v1/tasks/{task_id}/cancel"),
    ):
        assert bob.call(method, path).status == 404
    assert bob.get("/v1/tasks")["tasks"] == []


def test_each_page_continues_after_the_previous_one(server: ServerProcess) -> None:
    client = server.client(server.sign_in(Wallet("carol")))
    submitted = [client.submit("print(1)") for _ in range(5)]
    task_ids: list[str] = []
    cursor = ""
    while True:
        page = client.get(f"/v1/tasks?limit=2{cursor}")
        task_ids += [task["id"] for task in page["tasks"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert task_ids == submitted[::-1]


def test_health_is_open_and_honest(server: ServerProcess) -> None:
    stranger = server.client("")
    assert stranger.get("/healthz")["status"] == "ok"
    assert stranger.get("/readyz")["parts"]["database"] == "ok"
    assert b"Potluck" in stranger.call("GET", "/").data


WRONG_KINDS = ["text/plain", "application/xml", "application/x-www-form-urlencoded", "garbage"]


@pytest.mark.parametrize("kind", WRONG_KINDS)
def test_a_body_of_another_kind_is_not_guessed_at(server: ServerProcess, kind: str) -> None:
    response = server.client().call("POST", "/v1/tasks", with_field(), Content_Type=kind)
    assert (response.status, response.json()["code"]) == (415, "unsupported_media_type")
    assert "application/json" in response.json()["hint"]


def node(**changes: object) -> dict[str, object]:
    device = {"kind": "cpu", "uuid": "one", "vendor": "v", "model": "m", "memory_bytes": 1}
    description = {
        "name": "attic",
        "platform": "linux",
        "python_version": "3.11",
        "potluck_version": "0",
        "cores": 1,
        "memory_bytes": 1,
        "disk_bytes": 1,
        "sandbox": {"driver": "bwrap", "memory": "cgroup v2", "processes": "cgroup v2"},
        "devices": [device],
        **changes,
    }
    return {"description": description}


def stated(server: ServerProcess, offer: dict[str, object]) -> dict[str, object]:
    """With the node key's word for its device."""
    return {**offer, "statements": [Wallet("a node key").state(server.url, "one")]}


BAD_NODES = [
    node(devices=[]),
    node(devices=node()["description"]["devices"] * 2),  # type: ignore[index]
    node(memory_bytes=-1),
    node(name="a\u0007"),
    node(name="ends with a line break\n"),
    node(sandbox={"driver": "bwrap", "unknown": 1}),
    {**node(), "node_id": "node_\u0000"},
    {**node(), "node_id": "node_x"},
    {**node(), "role": "admin"},
]


@pytest.mark.parametrize("offer", BAD_NODES)
def test_a_bad_node_is_refused_and_changes_nothing(
    server: ServerProcess, offer: dict[str, object]
) -> None:
    before = server.client().get("/v1/nodes")
    body = json.dumps(stated(server, offer)).encode()
    response = server.node().call("POST", "/v1/nodes", body)
    assert (response.status, response.json()["code"]) == (400, "invalid_input")
    assert server.client().get("/v1/nodes") == before


def test_the_ids_of_log_chunks_are_ids(server: ServerProcess) -> None:
    client = server.node()
    node_id = client.post("/v1/nodes", stated(server, node()))["node_id"]
    path = f"/v1/nodes/{node_id}/logs"
    for attempt_id in ("attempt_\x00", "attempt_x", "task_01jd0000000000000000000000"):
        chunk = {"lease": {"attempt_id": attempt_id, "token": "x" * 43}, "offset": 0}
        chunk["pieces"] = [["stdout", b"x"]]
        body = msgspec.msgpack.encode(chunk)
        response = client.call("POST", path, body, Content_Type="application/msgpack")
        assert response.status == 400
    chunk["lease"] = {"attempt_id": "attempt_01jd0000000000000000000000", "token": "x" * 43}
    response = client.call(
        "POST", path, msgspec.msgpack.encode(chunk), Content_Type="application/msgpack"
    )
    assert (response.status, response.json()["code"]) == (409, "stale_lease")


def test_an_attempt_that_never_was_has_no_log(server: ServerProcess) -> None:
    client = server.client()
    task_id = client.submit("print(1)")
    assert client.get(f"/v1/tasks/{task_id}/logs")["pieces"] == []
    assert client.call("GET", f"/v1/tasks/{task_id}/logs?attempt=77").status == 404


def test_a_file_name_fits_into_a_file_system(server: ServerProcess) -> None:
    for name, status in (("ü" * 127, 201), ("ü" * 128, 400)):
        body = with_field(spec={**SCRIPT, "filename": name})
        assert server.client().call("POST", "/v1/tasks", body).status == status
