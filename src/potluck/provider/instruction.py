"""The instructions of the state machine: its outputs."""

from msgspec import Struct

from potluck.model.ids import AttemptId, TaskId
from potluck.model.lease import Lease
from potluck.model.task import EndReason
from potluck.provider.holding import WorkFacts
from potluck.wire.provider import CancelledItems, Finished, Grant, GrantedItems, ItemsDone, Report


class Remember(Struct, frozen=True):
    """Write the lease to the journal, so that it is known after a restart."""

    lease: Lease
    task_id: TaskId
    facts: WorkFacts | None = None


class Conclude(Struct, frozen=True):
    """Write the outcome to the journal, so that it can be reported after a restart."""

    finished: Finished


class Keep(Struct, frozen=True):
    """Write outcomes of items to the journal, so that they can be reported after a restart."""

    report: ItemsDone
    is_synced: bool = True


class Drop(Struct, frozen=True):
    """Drop outcomes of items from the journal: the server has them."""

    report: ItemsDone


class SignReceipt(Struct, frozen=True):
    """Sign what was done in the attempt, before it is forgotten. Without `finished` the server had
    ended the attempt while it ran here.
    """

    attempt_id: AttemptId
    facts: WorkFacts
    finished: Finished | None = None


class Forget(Struct, frozen=True):
    """Drop the attempt from the journal, with its log and its unsent reports."""

    attempt_id: AttemptId


class StageAttempt(Struct, frozen=True):
    """Prepare its run up to the start of its code, which waits for `StartAttempt`."""

    grant: Grant


class FeedItems(Struct, frozen=True):
    """Write the items to the journal, then pass them to the run of their attempt."""

    items: GrantedItems


class CancelItems(Struct, frozen=True):
    """Let the run of their attempt skip these items, or stop one that runs."""

    items: CancelledItems


class ReleaseAttempt(Struct, frozen=True):
    """Let the run of an attempt on a call stream end once its items are done."""

    attempt_id: AttemptId


class StartAttempt(Struct, frozen=True):
    """Start its run, or let the staged one start its code."""

    grant: Grant


class StopAttempt(Struct, frozen=True):
    """End its run immediately; `RunEnded` follows when all its processes have ended."""

    attempt_id: AttemptId


class RecallAttempt(Struct, frozen=True):
    """Ask its run to end, and end it when the grace is over; `RunEnded` follows."""

    attempt_id: AttemptId
    reason: EndReason
    grace_seconds: float


class SendReport(Struct, frozen=True):
    """Send the report until the server acknowledges it."""

    report: Report


Instruction = (
    Remember
    | CancelItems
    | Conclude
    | Keep
    | Drop
    | SignReceipt
    | Forget
    | StageAttempt
    | FeedItems
    | ReleaseAttempt
    | StartAttempt
    | StopAttempt
    | RecallAttempt
    | SendReport
)
