"""Submitting many tasks, and waiting for results of functions."""

from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.blob import INLINE_BYTES, Value
from potluck.model.bounded_types import SmallCount
from potluck.model.ids import NodeId, TaskId, TaskIdText
from potluck.model.task import EndReason, ItemRange, TaskRequest, TaskState

MOST_TASKS = 1_000  # that results are asked of
# In one list: reading, checking and storing more would keep the server from other requests.
MOST_SUBMITTED = 250


class Wanted(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    task_id: TaskIdText
    behind: SmallCount = 0  # the number of known pieces
    cancelled: SmallCount = 0  # of a call stream: the number of calls known to be cancelled


class AskResults(Struct, frozen=True, forbid_unknown_fields=True):
    """Answered when any of the tasks has new results, or after `wait_seconds`."""

    tasks: Annotated[tuple[Wanted, ...], Meta(min_length=1, max_length=MOST_TASKS)]
    wait_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.0


class ResultPiece(Struct, frozen=True):
    """Return values of the items from `start` up to `end` (wire/item_file.py), or the error of an
    item that finally failed. A task without an array has one item, 0.
    """

    start: int
    end: int
    value: Value
    is_error: bool = False
    node_id: NodeId | None = None
    wallet: str = ""  # of the node's owner: clients open pickles of trusted wallets only


class TaskResult(Struct, frozen=True):
    """New results of a task; `pieces` in the order of arrival."""

    task_id: TaskId
    state: TaskState
    behind: int  # for the next request
    pieces: list[ResultPiece] = []
    reason: EndReason | None = None
    detail: str = ""
    has_more: bool = False  # more results are already available
    last_lines: str = ""  # of a failed call, as in `AttemptView`
    cancelled: list[ItemRange] = []  # of a call stream: all calls that were cancelled


class Results(Struct, frozen=True):
    """The tasks with new results."""

    results: list[TaskResult]


class SubmitTasks(Struct, frozen=True, forbid_unknown_fields=True):
    """Many tasks in one request; a refused task does not affect the others."""

    tasks: Annotated[tuple[TaskRequest, ...], Meta(min_length=1, max_length=MOST_SUBMITTED)]


class Submitted(Struct, frozen=True):
    """The id of a task, or the error that refused it."""

    task_id: TaskId | None = None
    code: str = ""
    detail: str = ""
    hint: str = ""


class TasksSubmitted(Struct, frozen=True):
    """In the order of the request."""

    tasks: list[Submitted]


class AppendItems(Struct, frozen=True, forbid_unknown_fields=True):
    """Further calls of a stream. `start` is the index that the first of them gets: the same bytes
    there get the same answer, others a conflict.
    """

    start: SmallCount
    inputs: Annotated[bytes, Meta(max_length=INLINE_BYTES)]  # as in wire/item_file.py


class ItemsAppended(Struct, frozen=True):
    items: int  # how many items the stream has up to these
