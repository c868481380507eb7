"""What becomes of a task when an attempt of it has ended.

Lost attempts are not the task's failure, but they are counted: three different nodes lost by the
same task make it poison, and more than five losses are enough. Failures are tried again as often as
the consumer asked.
"""

from datetime import datetime, timedelta

from msgspec import Struct

from potluck.decide.lifecycle import ATTEMPT_STATE_AFTER
from potluck.model.backoff import BackOff
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, TaskState

POISONED_NODES = 3
MAX_LOSSES = 5
# The task had no part in these: it never reached the node, the owner wanted node or device back or
# does not take it, or the server was silent.
UNCOUNTED = frozenset(
    {
        EndReason.WITHDRAWN,
        EndReason.NODE_LEFT,
        EndReason.RECLAIMED,
        EndReason.DECLINED,
        EndReason.SILENCE,
    }
)
# Of these, what may be tried again at once. A node that says no knows of terms of which the server
# hears in a moment, or lacks what the server never hears of, such as an image; so its pauses grow.
AT_ONCE = UNCOUNTED - {EndReason.DECLINED, EndReason.RECLAIMED}
# Another try would end in the same way.
HOPELESS = frozenset({EndReason.SPEC_UNREADABLE})


class History(Struct, frozen=True):
    """What the task has been through, the attempt that just ended included."""

    failures: int
    losses: int
    nodes_lost: int  # different nodes on which it was lost
    max_attempts: int
    declines: int = 0  # by nodes that did not take it


class Wait(Struct, frozen=True):
    """How the next try is put off; `jitter` was drawn by the caller."""

    back_off: BackOff
    jitter: float

    def until(self, now: datetime, tries: int) -> datetime:
        return now + timedelta(seconds=self.back_off.seconds(tries, self.jitter))


class Next(Struct, frozen=True):
    """The task's next state, if it changes; and not before when another attempt may be made."""

    state: TaskState | None
    reason: EndReason | None
    not_before: datetime | None = None


def after(reason: EndReason, history: History, now: datetime, wait: Wait) -> Next:
    match ATTEMPT_STATE_AFTER[reason]:
        case AttemptState.SUCCEEDED:
            return Next(TaskState.SUCCEEDED, reason)
        case AttemptState.CANCELLED:
            return Next(TaskState.CANCELLED, reason)
        case AttemptState.LOST:
            return _after_loss(reason, history, now, wait)
        case _:
            return _after_failure(reason, history, now, wait)


def _after_loss(reason: EndReason, history: History, now: datetime, wait: Wait) -> Next:
    if reason is EndReason.DECLINED:
        return Next(TaskState.QUEUED, reason, wait.until(now, history.declines))
    if reason in UNCOUNTED:
        until = None if reason in AT_ONCE else wait.until(now, 1)
        return Next(TaskState.QUEUED, reason, until)
    if history.nodes_lost >= POISONED_NODES:
        return Next(TaskState.FAILED, EndReason.POISON)
    if history.losses > MAX_LOSSES:
        return Next(TaskState.FAILED, EndReason.TOO_MANY_LOSSES)
    return Next(TaskState.QUEUED, reason, wait.until(now, history.losses))


def _after_failure(reason: EndReason, history: History, now: datetime, wait: Wait) -> Next:
    if reason in HOPELESS or history.failures >= history.max_attempts:
        return Next(TaskState.FAILED, reason)
    return Next(TaskState.QUEUED, reason, wait.until(now, history.failures))
