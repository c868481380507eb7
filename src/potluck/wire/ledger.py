"""What an account is told of its own ledger, in millionths of a credit."""

from datetime import date, datetime
from enum import StrEnum

from msgspec import Struct

from potluck.model.credit import EntryKind
from potluck.model.ids import AttemptId, TaskId


class LedgerEntry(Struct, frozen=True):
    """A movement of credit, as it changed the two purses of the account.

    A hold takes from `available` and puts into `held`, a refund the other way; a charge takes from
    `held`; a grant and a reward put into `available`.
    """

    id: int
    at: datetime
    kind: EntryKind
    available_micro: int
    held_micro: int
    task_id: TaskId | None = None  # None of a grant
    task_name: str | None = None  # of a task of one's own
    attempt_id: AttemptId | None = None
    node_name: str | None = None


class LedgerPage(Struct, frozen=True):
    """Entries, newest first; `next_cursor` asks for the older ones."""

    entries: list[LedgerEntry]
    next_cursor: int | None = None


class LineBy(StrEnum):
    """What the lines of a summary stand for."""

    DAY = "day"
    TASK = "task"


class LedgerLine(Struct, frozen=True):
    """What came and went on a day (UTC), or for a task; credit that was given is for none."""

    granted_micro: int
    spent_micro: int
    earned_micro: int
    day: date | None = None
    task_id: TaskId | None = None
    task_name: str | None = None  # of a task of one's own


class LedgerSummary(Struct, frozen=True):
    """The balance now, and what came and went from `since` until `until`.

    The totals are of all of that time, the lines of the newest days or tasks.
    """

    available_micro: int
    held_micro: int
    since: datetime
    until: datetime
    granted_micro: int
    spent_micro: int
    earned_micro: int
    lines: list[LedgerLine]
    is_free: bool  # no device in the pool asks for credit
