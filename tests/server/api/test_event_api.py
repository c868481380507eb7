"""The list and the stream of an account's events, over HTTP."""

import re
from typing import Any

import urllib3

from potluck.server.api.operations import OPERATIONS
from potluck.server.flow.notify.task_stream import parse_position
from tests.processes import Api, ServerProcess, await_true
from tests.wallets import Wallet


def test_events_are_listed_and_followed(server: ServerProcess) -> None:
    owner = server.client(server.sign_in(Wallet("hears")))
    task_id = owner.submit("print('waits')", requirements={"memory_bytes": 2**50})
    page = await_true(lambda: _told(owner.get("/v1/events")), "it is told")
    (event,) = page["events"]
    assert (event["kind"], event["task_id"]) == ("task.queued", task_id)
    assert event["task_name"] == "script.py" and event["data"] == {"state": "queued"}
    assert event["id"].startswith("event_")
    page_at_end = owner.get(f"/v1/events?cursor={page['next_cursor']}")
    assert page_at_end["events"] == [] and int(page_at_end["next_cursor"]) >= int(
        page["next_cursor"]
    )
    assert owner.get(f"/v1/events?task_id={task_id}&kind=task.queued&order=newest")["events"] == [
        event
    ]
    text = first_of_the_stream(server, owner)
    assert text.startswith(b": still here") and b"event: task.queued" in text
    assert b"id: " in text


def first_of_the_stream(server: ServerProcess, caller: Api) -> bytes:
    """What comes until the first event is there."""
    response = urllib3.PoolManager(retries=False, timeout=10).request(
        "GET",
        f"{server.url}/v1/events/follow?cursor=0",
        headers={"Authorization": caller._headers["Authorization"]},
        preload_content=False,
    )
    assert response.status == 200
    try:
        text = b""
        while b"data:" not in text:
            text += response.read1(65_536)
    finally:
        response.close()
    return text


def test_invalid_positions_kinds_and_tasks_are_refused(server: ServerProcess) -> None:
    owner = server.client()
    for query in (
        *("cursor=x", "cursor=-1", f"cursor={'9' * 19}", "cursor=%C2%B2", "cursor=1.5"),
        *("kind=task.eaten", "order=middle", "limit=0", "limit=501"),
    ):
        assert owner.call("GET", f"/v1/events?{query}").status == 400, query
    assert owner.call("GET", "/v1/events?task_id=x").status == 400
    assert owner.call("GET", "/v1/events/follow", Last_Event_ID="1.task.2").status == 400


def test_invalid_positions_in_a_task_are_refused(server: ServerProcess) -> None:
    """To begin anew without a word would be to tell everything twice."""
    owner = server.client(server.sign_in(Wallet("was cut off")))
    task_id = owner.submit("print('waits')", requirements={"memory_bytes": 2**50})
    path = f"/v1/tasks/{task_id}/follow"
    attempt = "attempt_01m7gm2qh3e1r8x0c6d5p4v9bz"
    for position in (
        "garbage",
        "",
        "4711",
        "1.task.2",
        "-1..0",
        f"{'9' * 19}..0",
        f"1.{attempt}.x",
    ):
        response = owner.call("GET", path, Last_Event_ID=position)
        assert response.status == 400 and "`Last-Event-ID`" in response.json()["detail"], position
    owner.call("POST", f"/v1/tasks/{task_id}/cancel")
    text = owner.call("GET", path).data.decode()
    (last,) = [line.removeprefix("id: ") for line in text.splitlines() if line.startswith("id: ")]
    for position in (last, "0..0", f"1.{attempt}.0"):
        assert owner.call("GET", path, Last_Event_ID=position).status == 200, position


def test_the_example_of_a_stream_has_positions() -> None:
    example = OPERATIONS["follow_task"].response
    positions = re.findall(r"^id: (\S+)", str(example), re.MULTILINE)
    assert len(positions) == 2
    assert [str(parse_position(position)) for position in positions] == positions


def _told(page: Any) -> Any:
    return page if page.get("events") else None
