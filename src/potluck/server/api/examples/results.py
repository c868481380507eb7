"""What came of it: logs, files, values."""

from typing import Final

from potluck.model.blob import NamedFile, Value
from potluck.model.task import EndReason, TaskState
from potluck.server.api.examples.example import Area, Example
from potluck.server.api.examples.names import ATTEMPT, NODE, OWNER, TASK
from potluck.server.api.examples.work import BLOB, DONE
from potluck.wire.consumer import FailedItem, FailedItemPage, LogPage, LogPiece
from potluck.wire.files import TaskFiles
from potluck.wire.results import AskResults, ResultPiece, Results, TaskResult, Wanted

_VALUE = b"\x07"  # MessagePack of 7

AREA: Final = Area(
    "results",
    "What came of a task: its log, the files that it left, what its function returned. They are "
    "kept until the task's `kept_until`.",
    {
        "task_logs": Example(
            "Read a log",
            answer=LogPage(ATTEMPT, 0, 1, [LogPiece("stdout", b"Hello from a GPU.\n")], True),
        ),
        "task_files": Example(
            "List the files of a task",
            answer=TaskFiles(1, [NamedFile("results.csv", BLOB)], DONE.kept_until),
        ),
        "get_blob": Example("Fetch the bytes of a file", answer=b"foo", also=(416,)),
        "ask_results": Example(
            "Wait for what functions returned",
            AskResults((Wanted(TASK),), 20.0),
            Results(
                [
                    TaskResult(
                        TASK,
                        TaskState.SUCCEEDED,
                        1,
                        [ResultPiece(0, 1, Value(_VALUE), node_id=NODE, wallet=OWNER)],
                        EndReason.COMPLETED,
                    )
                ]
            ),
        ),
        "failed_items": Example(
            "List the failed items of an array",
            answer=FailedItemPage(
                [FailedItem(113, 1, True, ATTEMPT, EndReason.EXIT_STATUS, 3)],
            ),
        ),
    },
)
