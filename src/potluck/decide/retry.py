"""What becomes of a task when an attempt of it has ended.

Lost attempts are not the task's failure, but they are counted: three different nodes lost by the
same task make it poison, and more than five losses are enough. Failures are tried again as often as
the consumer asked.
"""

from datetime import datetime, timedelta

from msgspec import Struct

from potluck.decide.lifecycle import ATTEMPT_STATE_AFTER
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, TaskState

POISONED_NODES = 3
MAX_LOSSES = 5


class History(Struct, frozen=True):
    """What the task has been through, the attempt that just ended included."""

    failures: int
    losses: int
    nodes_lost: int  # different nodes on which it was lost
    max_attempts: int


class Next(Struct, frozen=True):
    """The task's next state; for `queued`, not before this time."""

    state: TaskState
    reason: EndReason
    not_before: datetime | None = None


class BackOff(Struct, frozen=True):
    """Exponential with full jitter: `jitter` is a number from 0 to 1 that the caller drew."""

    first_seconds: float
    longest_seconds: float
    jitter: float

    def until(self, now: datetime, tries: int) -> datetime:
        longest = min(self.longest_seconds, self.first_seconds * 2.0 ** max(0, tries - 1))
        return now + timedelta(seconds=longest * self.jitter)


def after(reason: EndReason, history: History, now: datetime, back_off: BackOff) -> Next:
    match ATTEMPT_STATE_AFTER[reason]:
        case AttemptState.SUCCEEDED:
            return Next(TaskState.SUCCEEDED, reason)
        case AttemptState.CANCELLED:
            return Next(TaskState.CANCELLED, reason)
        case AttemptState.LOST:
            return _after_loss(reason, history, now, back_off)
        case _:
            return _after_failure(reason, history, now, back_off)


def _after_loss(reason: EndReason, history: History, now: datetime, back_off: BackOff) -> Next:
    if reason is EndReason.WITHDRAWN:  # the task never reached the node: not even a loss
        return Next(TaskState.QUEUED, reason)
    if history.nodes_lost >= POISONED_NODES:
        return Next(TaskState.FAILED, EndReason.POISON)
    if history.losses > MAX_LOSSES:
        return Next(TaskState.FAILED, EndReason.TOO_MANY_LOSSES)
    return Next(TaskState.QUEUED, reason, back_off.until(now, history.losses))


def _after_failure(reason: EndReason, history: History, now: datetime, back_off: BackOff) -> Next:
    if history.failures >= history.max_attempts:
        return Next(TaskState.FAILED, reason)
    return Next(TaskState.QUEUED, reason, back_off.until(now, history.failures))
