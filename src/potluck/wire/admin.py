"""Messages of administration: labels, credit taken back, nodes, all tasks of the pool."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import PRINTABLE, LineText, ShortText
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
