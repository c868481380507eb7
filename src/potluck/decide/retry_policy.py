"""What becomes of a task when an attempt of it has ended.

Lost attempts are not the task's failure, but they are counted: three different nodes lost by the
same task make it poison, and more than five losses are enough. Failures are tried again as often as
the consumer asked.
"""

from datetime import datetime, timedelta

from msgspec import Struct

from potluck.model.backoff import BackOff
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, NextTry, TaskState

POISONED_NODES = 3
MAX_LOSSES = 5


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


def is_counted_loss(reason: EndReason) -> bool:
    """Whether it is one of the losses that are too many in the end; of others it has no part."""
    return reason.facts.attempt_state is AttemptState.LOST and reason.facts.is_counted


def after(reason: EndReason, history: History, now: datetime, wait: Wait) -> Next:
    match reason.facts.attempt_state:
        case AttemptState.SUCCEEDED:
            return Next(TaskState.SUCCEEDED, reason)
        case AttemptState.CANCELLED:
            return Next(TaskState.CANCELLED, reason)
        case AttemptState.LOST:
            return _after_loss(reason, history, now, wait)
        case _:
            return _after_failure(reason, history, now, wait)


def _after_loss(reason: EndReason, history: History, now: datetime, wait: Wait) -> Next:
    is_counted = is_counted_loss(reason)
    if is_counted and history.nodes_lost >= POISONED_NODES:
        return Next(TaskState.FAILED, EndReason.POISON)
    if is_counted and history.losses > MAX_LOSSES:
        return Next(TaskState.FAILED, EndReason.TOO_MANY_LOSSES)
    # A node that declines has terms that the server will know in a moment, or lacks what the server
    # never learns of, such as an image; so these pauses grow.
    pauses = {NextTry.SHORT_PAUSE: 1, NextTry.DECLINE_PAUSE: history.declines}
    tries = pauses.get(reason.facts.next_try, history.losses)
    is_at_once = reason.facts.next_try is NextTry.AT_ONCE
    return Next(TaskState.QUEUED, reason, None if is_at_once else wait.until(now, tries))


def _after_failure(reason: EndReason, history: History, now: datetime, wait: Wait) -> Next:
    if reason.facts.next_try is NextTry.NEVER or history.failures >= history.max_attempts:
        return Next(TaskState.FAILED, reason)
    return Next(TaskState.QUEUED, reason, wait.until(now, history.failures))
