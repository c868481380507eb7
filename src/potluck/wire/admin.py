"""Messages of administration: labels, credit taken back, nodes, all tasks of the pool."""

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from potluck.model.bounded_types import PRINTABLE, LineText, ShortText
from potluck.model.event import EventKind
from potluck.model.ids import AccountId, NodeId, TaskId
from potluck.model.task import EndReason, TaskState
from potluck.model.terms import TaskKind


class SetLabel(Struct, frozen=True, forbid_unknown_fields=True):
    """What admins call an account; empty text removes it."""

    label: Annotated[str, Meta(max_length=200, pattern=PRINTABLE)]


class TakeCredit(Struct, frozen=True, forbid_unknown_fields=True):
    amount_micro: Annotated[int, Meta(ge=1, le=2**53)]
    reason: ShortText


class Cordon(Struct, frozen=True, forbid_unknown_fields=True):
    reason: LineText = ""  # everyone in the pool sees it


class RemoveNode(Struct, frozen=True, forbid_unknown_fields=True):
    reason: LineText = ""  # for the audit log


class PoolTask(Struct, frozen=True):
    """A task as admins see it: whose it is, where it is and what it cost.

    Its name and content, arguments, variables, logs, files and results stay with its account.
    """

    id: TaskId
    account_id: AccountId
    address: str
    kind: TaskKind
    state: TaskState
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    reason: EndReason | None = None
    charge_micro: int = 0
    items: int | None = None  # of an array
    node_ids: list[NodeId] = []  # where it runs now; at most ten
    label: str = ""  # of the account


class PoolTaskPage(Struct, frozen=True):
    tasks: list[PoolTask]
    next_cursor: TaskId | None = None


class PoolEvent(Struct, frozen=True):
    """An event of any account as admins see it, without the name of a task."""

    id: str
    kind: EventKind
    at: datetime
    account_id: AccountId
    address: str
    label: str = ""  # of the account
    task_id: TaskId | None = None
    node_id: NodeId | None = None
    node_name: str | None = None
    data: dict[str, Any] = {}  # if applicable: state, reason, attempt_id, node_id


class PoolEventPage(Struct, frozen=True):
    """Newest first."""

    events: list[PoolEvent]
    next_cursor: str | None = None
    head: str | None = None  # after the newest event: a stream from here misses nothing
