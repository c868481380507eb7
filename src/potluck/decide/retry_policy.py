"""Decides the next state of a task when an attempt has ended.

Lost attempts are not failures of the task, but they count: a task lost on three different nodes is
poison, and one lost more than five times fails. Failures are retried as often as the consumer
allowed.
"""

from datetime import datetime, timedelta

from msgspec import Struct

from potluck.model.backoff import BackOff
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, NextTry, TaskState

POISONED_NODES = 3
MAX_LOSSES = 5


class History(Struct, frozen=True):
    """The failures and losses of a task, including the attempt that just ended."""

    failures: int
    losses: int
    nodes_lost: int  # different nodes on which it was lost
    max_attempts: int
    declines: int = 0  # nodes that declined it


class Wait(Struct, frozen=True):
    """The delay before the next attempt; `jitter` is drawn by the caller."""

    back_off: BackOff
    jitter: float

    def until(self, now: datetime, tries: int) -> datetime:
        return now + timedelta(seconds=self.back_off.seconds(tries, self.jitter))


class Next(Struct, frozen=True):
    """The task's next state, None if it stays, and the earliest time of the next attempt."""

    state: TaskState | None
    reason: EndReason | None
    not_before: datetime | None = None


def is_counted_loss(reason: EndReason) -> bool:
    """Whether the loss counts towards `MAX_LOSSES` and `POISONED_NODES`."""
    return reason.facts.attempt_state is AttemptState.LOST and reason.facts.is_counted


def decide_next(reason: EndReason, history: History, now: datetime, wait: Wait) -> Next:
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
    # A node declines by terms that the server learns soon, or for lack of something that it never
    # learns, such as an image; so these pauses grow.
    pauses = {NextTry.SHORT_PAUSE: 1, NextTry.DECLINE_PAUSE: history.declines}
    tries = pauses.get(reason.facts.next_try, history.losses)
    is_at_once = reason.facts.next_try is NextTry.AT_ONCE
    return Next(TaskState.QUEUED, reason, None if is_at_once else wait.until(now, tries))


def _after_failure(reason: EndReason, history: History, now: datetime, wait: Wait) -> Next:
    if reason.facts.next_try is NextTry.NEVER or history.failures >= history.max_attempts:
        return Next(TaskState.FAILED, reason)
    return Next(TaskState.QUEUED, reason, wait.until(now, history.failures))
