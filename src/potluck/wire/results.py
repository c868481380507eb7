"""What functions gave, on its way to whoever asked for it."""

from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.blob import Value
from potluck.model.bounded_types import SmallCount
from potluck.model.ids import NodeId, TaskId, TaskIdText
from potluck.model.task import EndReason, TaskRequest, TaskState

MOST_TASKS = 1_000


class Wanted(Struct, frozen=True, forbid_unknown_fields=True):
    task_id: TaskIdText
    behind: SmallCount = 0  # so many pieces of it are known


class AskResults(Struct, frozen=True, forbid_unknown_fields=True):
    """Answered when there is something new of any of them, or when the time is over."""

    tasks: Annotated[tuple[Wanted, ...], Meta(min_length=1, max_length=MOST_TASKS)]
    wait_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.0


class ResultPiece(Struct, frozen=True):
    """Items from `start` up to `end`, and what they returned (wire/item_file.py); or the error of
    one that failed for good. A task that is no array has one item, 0.
    """

    start: int
    end: int
    value: Value
    is_error: bool = False
    node_id: NodeId | None = None
    wallet: str = ""  # whose node it was: pickles are opened from some only


class TaskResult(Struct, frozen=True):
    """What is new of a task; `pieces` in the order in which they came."""

    task_id: TaskId
    state: TaskState
    behind: int  # to ask with next time
    pieces: list[ResultPiece] = []
    reason: EndReason | None = None
    detail: str = ""
    has_more: bool = False  # ask again, there is more already


class Results(Struct, frozen=True):
    """Those of which there is something new."""

    results: list[TaskResult]


class SubmitTasks(Struct, frozen=True, forbid_unknown_fields=True):
    """Many at once; one that is refused is no matter to the others."""

    tasks: Annotated[tuple[TaskRequest, ...], Meta(min_length=1, max_length=MOST_TASKS)]


class Submitted(Struct, frozen=True):
    """A task's id, or why it was not taken."""

    task_id: TaskId | None = None
    code: str = ""
    detail: str = ""
    hint: str = ""


class TasksSubmitted(Struct, frozen=True):
    """In the order of the request."""

    tasks: list[Submitted]
