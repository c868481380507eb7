"""Labels, notes, credit taken back, and all tasks: what admins do, and what they do not see."""

import json
from typing import Any

import msgspec
import urllib3

from potluck.cli.admin.status_text import status_lines
from potluck.cli.terminal.screen import Tone
from potluck.wire.admin import PoolTask
from potluck.wire.status import PoolStatus
from tests.processes import Api, ServerProcess, await_true
from tests.server.api.test_accounts import signed_in, status


def audited(operator: Api, kind: str, subject: str) -> list[dict[str, Any]]:
    entries = operator.get("/v1/audit")["entries"]
    return [
        entry["detail"] for entry in entries if (entry["kind"], entry["subject"]) == (kind, subject)
    ]


def account(operator: Api, account_id: str) -> dict[str, Any]:
    accounts = operator.get("/v1/accounts?limit=1000")["accounts"]
    return next(row for row in accounts if row["id"] == account_id)


def test_an_account_has_a_label_that_is_unique_and_for_admins(server: ServerProcess) -> None:
    operator, (ann, ann_id) = server.client(), signed_in(server, "labelled")
    _, ben_id = signed_in(server, "labelled too")
    path = f"/v1/accounts/{ann_id}/label"
    assert status(operator, "PUT", path, b'{"label":" Ada (robotics) "}') == 204
    assert account(operator, ann_id)["label"] == "Ada (robotics)"
    assert "Ada" not in json.dumps(ann.get("/v1/me"))
    taken_label = b'{"label":"ADA (robotics)"}'
    assert status(operator, "PUT", f"/v1/accounts/{ben_id}/label", taken_label) == 409
    for label in (b'{"label":"0xAda"}', b'{"label":"account_1"}', b'{"label":"a\\u0007"}'):
        assert status(operator, "PUT", path, label) == 400, label
    assert status(ann, "PUT", path, b'{"label":"me"}') == 403
    assert status(operator, "PUT", path, b'{"label":""}') == 204
    assert account(operator, ann_id)["label"] == ""
    assert audited(operator, "account_labelled", ann_id)[1] == {"label": "Ada (robotics)"}


def test_an_invite_has_a_note(server: ServerProcess) -> None:
    operator = server.client()
    invite = operator.post("/v1/invites", {"note": "for Ben"})["invite"]
    notes = {row["id"]: row["note"] for row in operator.get("/v1/invites")["invites"]}
    assert notes[invite["id"]] == invite["note"] == "for Ben"
    assert audited(operator, "invite_made", invite["id"])[0]["note"] == "for Ben"


def test_at_most_the_available_credit_is_taken_back(server: ServerProcess) -> None:
    operator, (ann, ann_id) = server.client(), signed_in(server, "granted twice")
    before = ann.get("/v1/me")["available_micro"]
    assert status(operator, "POST", f"/v1/accounts/{ann_id}/grants", b'{"amount_micro":500}') == 204
    path = f"/v1/accounts/{ann_id}/takes"
    beyond = json.dumps({"amount_micro": before + 501, "reason": "all"}).encode()
    response = operator.call("POST", path, beyond)
    assert response.status == 409 and "available" in response.json()["detail"]
    assert status(operator, "POST", path, b'{"amount_micro":500}') == 400, "a reason is needed"
    body = b'{"amount_micro":500,"reason":"granted twice"}'
    assert status(operator, "POST", path, body) == 204
    assert ann.get("/v1/me")["available_micro"] == before
    newest = ann.get("/v1/me/ledger")["entries"][0]
    assert (newest["kind"], newest["available_micro"]) == ("grant", -500)
    details = {"amount_micro": "500", "reason": "granted twice"}
    assert audited(operator, "credit_taken", ann_id) == [details]
    assert status(ann, "POST", path, body) == 403


def test_an_admin_sees_whose_tasks_there_are_and_not_what_they_are(server: ServerProcess) -> None:
    operator, (ann, ann_id) = server.client(), signed_in(server, "with tasks")
    ids = [ann.submit("print('private')", name="private.py") for _ in range(3)]
    ann.post(f"/v1/tasks/{ids[0]}/cancel", {})
    page = operator.get(f"/v1/pool/tasks?account={ann_id}&limit=2")
    assert [task["id"] for task in page["tasks"]] == ids[:0:-1]
    next_page = operator.get(f"/v1/pool/tasks?account={ann_id}&cursor={page['next_cursor']}")
    assert [task["id"] for task in next_page["tasks"]] == ids[:1]
    assert "private" not in json.dumps([page, next_page])
    assert set(PoolTask.__struct_fields__) == set(next_page["tasks"][0])
    tasks = operator.get("/v1/pool/tasks?state=cancelled&kind=script")["tasks"]
    assert ids[0] in [task["id"] for task in tasks]
    assert {task["state"] for task in tasks} == {"cancelled"}
    assert operator.get("/v1/pool/tasks?kind=dance")["status"] == 400
    assert operator.get("/v1/pool/tasks?account=nobody")["status"] == 404
    assert ann.get("/v1/pool/tasks")["status"] == 403


def test_the_status_has_the_whole_pool_and_is_for_admins(server: ServerProcess) -> None:
    operator, (ann, _) = server.client(), signed_in(server, "curious")
    assert status(ann, "GET", "/v1/status") == 403
    ann.submit("print(1)", requirements={"cores": 1000})

    def look() -> dict[str, Any]:
        pool_status: dict[str, Any] = operator.get("/v1/status")
        is_ready = pool_status["readiness"]["status"] == "ok"  # as of the last check
        # The leader hears of a task a moment after it is in the database.
        queued_count = sum(entry["tasks"] for entry in pool_status["queue"])
        return pool_status if pool_status["waiting_tasks"] == queued_count >= 1 and is_ready else {}

    shown = await_true(look, "the leader tells why tasks wait")
    assert shown["oldest_waiting_at"]
    (instance,) = shown["instances"]
    assert instance["is_leader"] and instance["id"] == shown["readiness"]["instance"]
    assert shown["ledger_sum_micro"] == 0 and shown["backup"] == {"is_running": False} | {
        "latest_at": None,
        "size_bytes": None,
        "missing_blobs": None,
    }
    lines = dict(status_lines(msgspec.convert(shown, PoolStatus)))
    assert lines["ledger"][0].text == "sums to zero" and "leads" in lines["instances"][0].text
    assert lines["backup"][0].tone is Tone.BAD, "there is none"
    firing = msgspec.convert({**shown, "firing_alerts": {"BackupTooOld": 1}}, PoolStatus)
    assert dict(status_lines(firing))["alerts"][0].text == "1 firing: BackupTooOld"
    pending = msgspec.convert({**shown, "pending_alerts": {"NodeLost": 2}}, PoolStatus)
    assert [cell.text for cell in dict(status_lines(pending))["alerts"]] == ["2 pending: NodeLost"]


def test_throughput_and_latency_are_shown_over_time(server: ServerProcess) -> None:
    operator, (ann, _) = server.client(), signed_in(server, "cancels")
    before = _stopped(operator)
    for _ in range(3):
        task_id = ann.submit("print()", requirements={"memory_bytes": 2**50})
        ann.post(f"/v1/tasks/{task_id}/cancel", {})
    history = operator.get("/v1/pool/history?hours=1")
    assert (history["step_seconds"], history["is_complete"]) == (60, True)
    assert sum(point["stopped"] for point in history["points"]) == before + 3
    never_started = [point for point in history["points"] if not point["succeeded"]]
    assert all(point["run_median_seconds"] is None for point in never_started)
    assert status(ann, "GET", "/v1/pool/history") == 403
    for query in ("hours=0", "hours=169", "hours=x"):
        assert status(operator, "GET", f"/v1/pool/history?{query}") == 400, query


def _stopped(operator: Api) -> int:
    points = operator.get("/v1/pool/history?hours=168")["points"]
    return sum(point["stopped"] for point in points)


def test_an_admin_sees_events_of_all_accounts_without_the_names_of_tasks(
    server: ServerProcess,
) -> None:
    operator, (ann, ann_id) = server.client(), signed_in(server, "is watched")
    start = operator.get("/v1/pool/events")["head"]
    task_id = ann.submit("print()", name="a secret plan", requirements={"memory_bytes": 2**50})

    def listed() -> Any:
        page = operator.get("/v1/pool/events?limit=500")
        return next((event for event in page["events"] if event["task_id"] == task_id), None)

    event = await_true(listed, "it is listed")
    assert (event["kind"], event["account_id"]) == ("task.queued", ann_id)
    assert event["address"] and event["data"] == {"state": "queued"}
    assert "secret" not in json.dumps(event)
    ann.post(f"/v1/tasks/{task_id}/cancel", {})
    await_true(lambda: listed()["kind"] == "task.finished", "its end is listed")
    first = operator.get("/v1/pool/events?limit=1")
    assert len(first["events"]) == 1
    second = operator.get(f"/v1/pool/events?limit=1&cursor={first['next_cursor']}")
    assert second["events"][0]["id"] != first["events"][0]["id"]
    text = until_data(operator, f"/v1/pool/events/follow?cursor={start}", task_id.encode())
    assert b"secret" not in text
    for path in ("/v1/pool/events", "/v1/pool/events/follow"):
        assert status(ann, "GET", path) == 403
        assert status(operator, "GET", f"{path}?cursor=x") == 400


def test_a_busy_pool_costs_a_watcher_a_page_a_second(server: ServerProcess) -> None:
    operator, (ann, _) = server.client(), signed_in(server, "is busy")
    start = operator.get("/v1/pool/events")["head"]
    spec = {"kind": "script", "filename": "many.py", "source": "print()"}
    task = {"spec": spec, "requirements": {"memory_bytes": 2**50}}
    ann.post("/v1/tasks/batch", {"tasks": [task] * 60})

    def head() -> int:
        return int(operator.get("/v1/pool/events?limit=1")["head"])

    await_true(lambda: head() >= int(start) + 60, "the events have their places")
    text = until_data(operator, f"/v1/pool/events/follow?cursor={start}", b"task.queued")
    assert text.index(b"event: gap") < text.index(b"event: task.queued")


def until_data(caller: Api, path: str, expected: bytes) -> bytes:
    """What a stream sends until this is there."""
    response = urllib3.PoolManager(retries=False, timeout=10).request(
        "GET", caller.url + path, headers=caller._headers, preload_content=False
    )
    assert response.status == 200
    try:
        text = b""
        while expected not in text:
            text += response.read1(65_536)
    finally:
        response.close()
    return text
