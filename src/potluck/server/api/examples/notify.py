"""Being told what happens, as it happens."""

from typing import Final

from potluck.server.api.examples.example import Area, Example
from potluck.server.api.examples.names import TASK

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

AREA: Final = Area(
    "notify",
    "Being told: server-sent events that go on where they were cut.",
    {"follow_task": Example("Follow a task", answer=_STREAM)},
)
