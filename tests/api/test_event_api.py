"""The list and the stream of an account's events, over HTTP."""

from typing import Any

import urllib3

from tests.processes import ServerProcess, await_true
from tests.wallets import Wallet


def test_events_are_listed_and_followed(server: ServerProcess) -> None:
    owner = server.client(server.sign_in(Wallet("hears")))
    task_id = owner.submit("print('waits')", requirements={"memory_bytes": 2**50})
    page = await_true(lambda: _told(owner.get("/v1/events")), "it is told")
    (event,) = page["events"]
    assert (event["kind"], event["task_id"]) == ("task.queued", task_id)
    assert event["task_name"] == "script.py" and event["data"] == {"state": "queued"}
    assert event["id"].startswith("event_")
    behind = owner.get(f"/v1/events?cursor={page['next_cursor']}")
    assert behind["events"] == [] and int(behind["next_cursor"]) >= int(page["next_cursor"])
    assert owner.get(f"/v1/events?task_id={task_id}&kind=task.queued&order=newest")["events"] == [
        event
    ]
    answer = urllib3.PoolManager(retries=False, timeout=10).request(
        "GET",
        f"{server.url}/v1/events/follow?cursor=0",
        headers={"Authorization": owner._headers["Authorization"]},
        preload_content=False,
    )
    try:
        text = b""
        while b"data:" not in text:
            text += answer.read1(65_536)
    finally:
        answer.close()
    assert text.startswith(b": still here") and b"event: task.queued" in text
    assert f"id: {int(behind['next_cursor'])}" in text.decode() or b"id: " in text


def test_what_is_no_position_kind_or_task_is_refused(server: ServerProcess) -> None:
    owner = server.client()
    for query in (
        *("cursor=x", "cursor=-1", f"cursor={'9' * 19}", "cursor=%C2%B2", "cursor=1.5"),
        *("kind=task.eaten", "order=middle", "limit=0", "limit=501"),
    ):
        assert owner.call("GET", f"/v1/events?{query}").status == 400, query
    assert owner.call("GET", "/v1/events?task_id=x").status == 400
    assert owner.call("GET", "/v1/events/follow", Last_Event_ID="1.task.2").status == 400


def _told(page: Any) -> Any:
    return page if page.get("events") else None
