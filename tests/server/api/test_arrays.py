"""Arrays and what comes after others, as a program sees them."""

from typing import Any

import pytest

from tests.processes import ServerProcess, await_true
from tests.wallets import Wallet

SPEC = {"kind": "script", "filename": "a.py", "source": "print(1)"}

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"items": 0}, "items"),
    ({"items": 1_000_001}, "items"),
    ({"items": 3, "allow_failures": 4}, "allows 4 failures"),
    ({"allow_failures": 1}, "Only an array may allow failures"),
    ({"after": ["task_01jd0000000000000000000000"]}, "You have no task"),
    ({"after": ["account_01jd0000000000000000000000"]}, "after"),
    ({"delay_seconds": 9, "start_within_seconds": 5}, "delayed by 9 s"),
    ({"requirements": {"device_milli": 500, "device_count": 2}}, "fraction of a device"),
    ({"requirements": {"device_milli": 0}}, "device_milli"),
    ({"requirements": {"network": ["hugingface"]}}, "no network preset 'hugingface'"),
    ({"requirements": {"network": ["raw:22"]}}, "not a public name"),
    ({"requirements": {"network": ["10.0.0.1:80"]}}, "a private network"),
    ({"requirements": {"network": ["0x7f.1"]}}, "ambiguous number"),
    ({"requirements": {"network": ["printer.local"]}}, "not a public name"),
    ({"requirements": {"network": ["pypi.org:70000"]}}, "valid port"),
    ({"requirements": {"network": ["a b.org"]}}, "network"),
    ({"requirements": {"network": ["pypi.org"], "network_bytes": 1}}, "network_bytes"),
    ({"limits": {"log_bytes": 100}}, "log_bytes"),
    ({"requirements": {"volumes": [{"name": "no", "path": "/data"}]}}, "no volume 'no'"),
    ({"requirements": {"volumes": [{"name": "../x", "path": "/data"}]}}, "name"),
    ({"requirements": {"volumes": [{"name": "data", "path": "/a/../etc"}]}}, "path"),
    ({"requirements": {"volumes": [{"name": "data", "path": "/d", "mode": "rw"}]}}, "mode"),
    ({"limits": {"keep": ["../secret"]}}, "keep"),
    ({"limits": {"keep": ["/etc/*"]}}, "keep"),
    ({"expected_seconds": 20, "limits": {"run_seconds": 10}}, "expected to take 20 s"),
]


@pytest.mark.parametrize(("changes", "sentence"), REFUSED, ids=[row[1] for row in REFUSED])
def test_invalid_requests_get_a_sentence(
    server: ServerProcess, changes: dict[str, Any], sentence: str
) -> None:
    problem = server.client().post("/v1/tasks", {"spec": SPEC, **changes})
    assert (problem["status"], problem["code"]) == (400, "invalid_input")
    assert sentence in problem["detail"]


def test_an_array_shows_how_far_it_is_and_what_failed(server: ServerProcess) -> None:
    me, stranger = server.client(), server.client(server.sign_in(Wallet("looks at arrays")))
    request = {"spec": SPEC, "items": 9, "expected_seconds": 2, "delay_seconds": 3600}
    task = me.post("/v1/tasks", request, Idempotency_Key="an array")
    assert task["items"] == {"total": 9, "pending": 9, "succeeded": 0, "failed": 0, "cancelled": 0}
    assert (task["waiting"]["code"], task["expected_seconds"]) == ("delayed", 2)
    assert me.post("/v1/tasks", request, Idempotency_Key="an array")["id"] == task["id"]
    other = me.post("/v1/tasks", {**request, "items": 8}, Idempotency_Key="an array")
    assert other["code"] == "conflict"
    items = f"/v1/tasks/{task['id']}/items"
    assert me.get(items)["items"] == []
    assert stranger.get(items)["code"] == "not_found"
    states = me.get(f"{items}/states")
    assert (states["total"], states["pending"]) == (9, [{"start": 0, "end": 9}])
    assert (states["is_stream"], states["open_until"]) == (False, None)
    assert stranger.get(f"{items}/states")["code"] == "not_found"
    single = me.post("/v1/tasks", {"spec": SPEC, "delay_seconds": 3600})["id"]
    assert me.get(f"/v1/tasks/{single}/items/states")["code"] == "conflict"
    result = f"/v1/tasks/{task['id']}%233/result"
    assert (me.get(result)["code"], stranger.get(result)["code"]) == ("not_found", "not_found")
    assert "no result" in me.get(result)["detail"]
    assert me.call("GET", f"{items}?cursor=-2").status == 400
    attempts = f"/v1/tasks/{task['id']}/attempts"
    assert me.get(attempts) == {"attempts": [], "next_cursor": None}
    assert stranger.get(attempts)["code"] == "not_found"
    assert me.call("GET", f"{attempts}?cursor=0").status == 400
    assert me.call("GET", f"{attempts}?item=-1").status == 400


def test_dependents_of_a_cancelled_task_are_cancelled_by_the_leader(server: ServerProcess) -> None:
    me = server.client()
    first = me.post("/v1/tasks", {"spec": SPEC, "delay_seconds": 3600})
    second = me.post("/v1/tasks", {"spec": SPEC, "after": [first["id"]]})
    third = me.post("/v1/tasks", {"spec": SPEC, "after": [second["id"]]})
    assert (third["after"], third["waiting"]["code"]) == ([second["id"]], "dependency")
    me.post(f"/v1/tasks/{first['id']}/cancel", {})
    path = f"/v1/tasks/{third['id']}"
    await_true(lambda: me.get(path)["state"] == "cancelled", "the chain falls")
    assert me.get(path)["reason"] == "dependency"
    assert second["id"] in me.get(path)["detail"]


def test_tasks_of_other_accounts_cannot_be_waited_for(server: ServerProcess) -> None:
    task = server.client().post("/v1/tasks", {"spec": SPEC, "delay_seconds": 3600})
    stranger = server.client(server.sign_in(Wallet("waits for others")))
    response = stranger.post("/v1/tasks", {"spec": SPEC, "after": [task["id"]]})
    missing = task["id"][:-4] + "0000"
    nobodys = stranger.post("/v1/tasks", {"spec": SPEC, "after": [missing]})
    assert response["detail"].replace(task["id"], missing) == nobodys["detail"]
