"""In the queue and on its way: list, look, explain, cancel."""

from typing import Final

from potluck.model.task import TaskState
from potluck.server.api.examples.example import Area, Example
from potluck.server.api.examples.names import TASK, at
from potluck.server.api.examples.work import AGAIN, CANCELLED, DONE, RAN
from potluck.wire.consumer import AttemptPage, Explanation, RefusalCount, TaskPage
from potluck.wire.retry_request import RetryTask

_BUSY = "1 node is busy with other tasks."

AREA: Final = Area(
    "queue",
    "Where your tasks are, why they wait, and when they may start. A task is `queued`, "
    "`assigned`, `running`, and at last `succeeded`, `failed`, `cancelled` or `expired`.",
    {
        "list_tasks": Example("List your tasks", answer=TaskPage([DONE], TASK)),
        "get_task": Example("See one task", answer=DONE),
        "explain_task": Example(
            "Ask why a task waits",
            answer=Explanation(
                TASK,
                TaskState.QUEUED,
                _BUSY,
                2,
                [
                    RefusalCount("device_busy", 1, _BUSY),
                    RefusalCount("device_model", 1, "1 node has no device of the wanted model."),
                ],
                ["It starts when a device on attic is free."],
                1,
                at(9, 52),
                "what runs there has a time limit",
                at(9, 41),
            ),
        ),
        "cancel_task": Example("Cancel a task", answer=CANCELLED),
        "retry_task": Example("Try a task again", RetryTask(), AGAIN, also=(402, 409)),
        "list_attempts": Example("List the attempts at a task", answer=AttemptPage([RAN])),
    },
)
