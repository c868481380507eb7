"""The ledger of an account, in micro-credits."""

from datetime import date, datetime
from enum import StrEnum

from msgspec import Struct

from potluck.model.credit import EntryKind
from potluck.model.ids import AttemptId, TaskId


class LedgerEntry(Struct, frozen=True):
    """A change of the account's balance.

    A hold moves credit from `available` to `held`, a refund moves it back; a charge takes from
    `held`; a grant and a reward add to `available`.
    """

    id: int
    at: datetime
    kind: EntryKind
    available_micro: int
    held_micro: int
    task_id: TaskId | None = None  # None for a grant, an epoch and a payout
    task_name: str | None = None  # only of the account's own task
    attempt_id: AttemptId | None = None
    node_name: str | None = None
    claimable_micro: int = 0  # by an epoch from `available`, by a payout out of the pool


class LedgerPage(Struct, frozen=True):
    """Entries, newest first; `next_cursor` leads to older ones."""

    entries: list[LedgerEntry]
    next_cursor: int | None = None


class LineBy(StrEnum):
    """What each line of a summary covers."""

    DAY = "day"
    TASK = "task"


class LedgerLine(Struct, frozen=True):
    """Totals of a day (UTC) or of a task; grants, deposits and epochs belong to no task."""

    granted_micro: int
    spent_micro: int
    earned_micro: int
    day: date | None = None
    task_id: TaskId | None = None
    task_name: str | None = None  # only of the account's own task
    deposited_micro: int = 0  # in the contract
    set_aside_micro: int = 0  # of the earnings, for a payout


class LedgerSummary(Struct, frozen=True):
    """The current balance, and totals from `since` until `until`.

    The totals cover the whole time, the lines only the newest days or tasks.
    """

    available_micro: int
    held_micro: int
    since: datetime
    until: datetime
    granted_micro: int
    spent_micro: int
    earned_micro: int
    lines: list[LedgerLine]
    is_free: bool  # no device in the pool costs credit
    deposited_micro: int = 0
    set_aside_micro: int = 0
