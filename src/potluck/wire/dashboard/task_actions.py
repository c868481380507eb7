"""Cancelling or retrying many tasks: first exactly which ones, then these and no others."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, Struct

from potluck.model.bounded_types import PRINTABLE
from potluck.model.ids import TaskId, TaskIdText
from potluck.model.task import TaskState
from potluck.model.terms import TaskKind

# Tasks of one request; the preview says whether there are more.
MOST_TASKS: Final = 100


class TaskAction(StrEnum):
    CANCEL = "cancel"  # of tasks that have not ended
    RETRY = "retry"  # of tasks that have


class TaskSelection(Struct, frozen=True, forbid_unknown_fields=True):
    """The filters of the list of tasks; an omitted one matches all."""

    states: Annotated[tuple[TaskState, ...], Meta(max_length=len(TaskState))] = ()
    name: Annotated[str, Meta(max_length=200, pattern=PRINTABLE)] | None = None
    find: Annotated[str, Meta(max_length=200, pattern=PRINTABLE)] | None = (
        None  # a part of the name
    )
    kind: TaskKind | None = None
    since: datetime | None = None
    until: datetime | None = None


class PreviewAction(Struct, frozen=True, forbid_unknown_fields=True):
    action: TaskAction
    selection: TaskSelection = TaskSelection()


class AffectedTask(Struct, frozen=True):
    """A task as it was when the preview was made."""

    id: TaskId
    version: int
    name: str
    state: TaskState


class ActionPreview(Struct, frozen=True):
    """Newest first. Tasks of the selection that the action does not apply to are left out."""

    action: TaskAction
    tasks: list[AffectedTask]
    has_more: bool  # older tasks match too; apply the action to these, then ask again


class ActionTarget(Struct, frozen=True, forbid_unknown_fields=True):
    id: TaskIdText
    version: Annotated[int, Meta(ge=0, le=2**62)]


class ApplyAction(Struct, frozen=True, forbid_unknown_fields=True):
    """The tasks of a preview, or some of them."""

    action: TaskAction
    tasks: Annotated[tuple[ActionTarget, ...], Meta(min_length=1, max_length=MOST_TASKS)]


class ActionOutcome(StrEnum):
    DONE = "done"
    CHANGED = "changed"  # since the preview; nothing was done
    REFUSED = "refused"  # and the detail says why


class ActionResult(Struct, frozen=True):
    id: TaskId
    outcome: ActionOutcome
    detail: str = ""
    new_task_id: TaskId | None = None  # of a retry


class ActionResults(Struct, frozen=True):
    """In the order of the request."""

    results: list[ActionResult]
