"""What the state machine wants done: its outputs."""

from msgspec import Struct

from potluck.model.ids import AttemptId, TaskId
from potluck.model.lease import Lease
from potluck.model.task import EndReason
from potluck.wire.provider import Finished, Grant, ItemsDone, Report


class Remember(Struct, frozen=True):
    """Write the lease to the journal, so that a restart knows what was held."""

    lease: Lease
    task_id: TaskId


class Conclude(Struct, frozen=True):
    """Write the outcome to the journal, so that a restart can still report it."""

    finished: Finished


class Keep(Struct, frozen=True):
    """Write these outcomes of items to the journal, so that a restart can still report them."""

    report: ItemsDone


class Drop(Struct, frozen=True):
    """The server has them: the journal need not keep them any more."""

    report: ItemsDone


class Forget(Struct, frozen=True):
    """Drop it from the journal, with its log and all reports that were not sent yet."""

    attempt_id: AttemptId


class StartAttempt(Struct, frozen=True):
    """Run it."""

    grant: Grant


class StopAttempt(Struct, frozen=True):
    """End its run at once; `RunEnded` follows when nothing of it is left."""

    attempt_id: AttemptId


class RecallAttempt(Struct, frozen=True):
    """Ask its run to come to an end, and end it when the grace is over; `RunEnded` follows."""

    attempt_id: AttemptId
    reason: EndReason
    grace_seconds: float


class SendReport(Struct, frozen=True):
    """Tell the server, again and again until it answers."""

    report: Report


Instruction = (
    Remember
    | Conclude
    | Keep
    | Drop
    | Forget
    | StartAttempt
    | StopAttempt
    | RecallAttempt
    | SendReport
)
