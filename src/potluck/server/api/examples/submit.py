"""Submitting: tasks, and the files that they take along."""

from typing import Final

from potluck.server.api.examples.example import Area, Example
from potluck.server.api.examples.names import TASK, UPLOAD, at
from potluck.server.api.examples.work import BLOB, QUEUED, REQUEST
from potluck.wire.consumer import RefusalCount
from potluck.wire.estimate import Estimate, Outlook
from potluck.wire.files import PART_BYTES, BeginUpload, Upload
from potluck.wire.results import Submitted, TasksSubmitted
from potluck.wire.strict_types import StrictSubmitTasks

_BEGUN = Upload(UPLOAD, PART_BYTES, 0, False)
_SENT = Upload(UPLOAD, PART_BYTES, 1, False)
_WHOLE = Upload(UPLOAD, PART_BYTES, 1, True)
_ESTIMATE = Estimate(
    Outlook.NOW,
    "It would start now: the one device that suits it is free.",
    nodes=2,
    suitable_nodes=1,
    suitable_devices=1,
    free_devices=1,
    cheapest_micro_per_hour=250_000,
    dearest_micro_per_hour=250_000,
    hold_micro=250_000,
    most_micro=250_000,
    available_micro=5_000_000,
    estimated_start=at(9, 41),
    basis="there is room for it now",
    refusals=[RefusalCount("device_kind", 1, "1 node has no device of the wanted kind.")],
    at=at(9, 41),
)

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
        "estimate_task": Example("Ask what a task would meet", REQUEST, _ESTIMATE, also=(503,)),
        "begin_upload": Example("Begin an upload", BeginUpload(BLOB), _BEGUN),
        "put_part": Example("Send a part", b"foo", _SENT, also=(400, 409)),
        "finish_upload": Example("Finish an upload", answer=_WHOLE, also=(400, 409)),
    },
)
