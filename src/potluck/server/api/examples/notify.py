"""Being told what happens, as it happens."""

from typing import Final

from potluck.model.event import EventKind
from potluck.server.api.examples.example import Area, Example
from potluck.server.api.examples.names import EVENT, TASK, at
from potluck.wire import codec
from potluck.wire.events import EventPage, EventView

_STREAM = (
    "event: state\r\n"
    "id: 3.1.0\r\n"
    f'data: {{"event":"state","task":{{"id":"{TASK}","state":"running"}}}}\r\n'
    "\r\n"
    "event: log\r\n"
    "id: 3.1.1\r\n"
    'data: {"event":"log","page":{"offset":0,"next_offset":1}}\r\n'
    "\r\n"
)

_EVENT = EventView(
    EVENT,
    EventKind.TASK_FINISHED,
    at(12, 0, 9),
    TASK,
    "hello.py",
    data={"state": "succeeded", "reason": "completed"},
)
_EVENTS = (
    ": still here\r\nid: 4710\r\n\r\n"
    f"event: task.finished\r\nid: 4711\r\ndata: {codec.encode_json(_EVENT).decode()}\r\n\r\n"
)

AREA: Final = Area(
    "notify",
    "Being told: server-sent events that go on where they were cut.",
    {
        "follow_task": Example("Follow a task", answer=_STREAM),
        "list_events": Example("List events", answer=EventPage([_EVENT], "4711", "4711")),
        "follow_events": Example("Follow events", answer=_EVENTS),
    },
)
