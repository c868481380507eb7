"""`potluck events`, against a server that answers as told."""

from datetime import UTC, datetime

from potluck.model.event import EventKind
from potluck.model.ids import NodeId, TaskId
from potluck.wire.events import EventPage, EventView
from tests.cli.command_line import CommandLine
from tests.consumer.fake_server import FakeServer, says

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TASK = TaskId("task_01m7gm2q85jfaf9jspxrgzrx1c")


def an_event(kind: EventKind, **changes: object) -> EventView:
    data = {"task_id": TASK, "task_name": "hello.py", **changes}
    return EventView(f"event_{kind}", kind, NOW, **data)  # type: ignore[arg-type]


def test_events_are_lines_oldest_first(user: CommandLine, server: FakeServer) -> None:
    newest_first = [
        an_event(EventKind.TASK_FINISHED, data={"state": "failed", "reason": "exit_status"}),
        an_event(
            EventKind.ATTEMPT_GRANTED, node_id=NodeId("node_12345678"), data={"state": "granted"}
        ),
        an_event(
            EventKind.NODE_ONLINE, task_id=None, task_name=None, node_id=NodeId("node_87654321")
        ),
    ]
    server.plays("/v1/events", says(EventPage(newest_first, None, "7")))
    lines = user.run("events").stdout.decode().splitlines()
    assert [line.split()[2] for line in lines] == [
        "node.online",
        "attempt.granted",
        "task.finished",
    ]
    assert lines[0].endswith("node 87654321")
    assert lines[1].endswith("hello.py (xrgzrx1c): granted on node 12345678")
    assert lines[2].endswith("hello.py (xrgzrx1c): failed (exit_status)")
    events = user.run("events", "--json", "--limit", "2", "--kind", "task.finished").lines()
    assert [line["kind"] for line in events] == ["attempt.granted", "task.finished"]


def test_an_empty_list_is_shown_as_empty(user: CommandLine, server: FakeServer) -> None:
    server.plays("/v1/events", says(EventPage([], None, "0")))
    assert "No events match" in user.run("events").stderr
    assert user.run("events", "--kind", "task.eaten").status == 64
