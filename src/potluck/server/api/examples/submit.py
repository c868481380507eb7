"""Submitting: tasks, and the files that they take along."""

from typing import Final

from potluck.server.api.examples.example import Area, Example
from potluck.server.api.examples.names import TASK, UPLOAD
from potluck.server.api.examples.work import BLOB, QUEUED, REQUEST
from potluck.wire.files import PART_BYTES, BeginUpload, Upload
from potluck.wire.results import Submitted, TasksSubmitted
from potluck.wire.strict import StrictSubmitTasks

_BEGUN = Upload(UPLOAD, PART_BYTES, 0, False)
_SENT = Upload(UPLOAD, PART_BYTES, 1, False)
_WHOLE = Upload(UPLOAD, PART_BYTES, 1, True)

AREA: Final = Area(
    "submit",
    "Ask for something to be run: a script, a function, a command or an image, on devices that "
    "fit. What it takes along is uploaded first, in parts.",
    {
        "submit_task": Example("Submit a task", REQUEST, QUEUED, also=(402, 409)),
        "submit_tasks": Example(
            "Submit many tasks",
            StrictSubmitTasks((REQUEST,)),
            TasksSubmitted([Submitted(TASK)]),
            also=(409,),
        ),
        "begin_upload": Example("Begin an upload", BeginUpload(BLOB), _BEGUN),
        "put_part": Example("Send a part", b"foo", _SENT, also=(400, 409)),
        "finish_upload": Example("Finish an upload", answer=_WHOLE, also=(400, 409)),
    },
)
