"""Decides the next state of a task when an attempt has ended.

Lost attempts are not failures of the task, but they count: a task lost on three different nodes is
poison, and one lost more than five times fails. Losses by an owner's or the task's own terms do not
count among these, but a task that has a hundred of them fails too. Failures are retried as often as
the consumer allowed. Each sort of end has a pause of its own, which doubles.
"""

from datetime import datetime, timedelta

from msgspec import Struct

from potluck.model.backoff import BackOff
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, NextTry, TaskState

POISONED_NODES = 3
MAX_LOSSES = 5
# An owner may reclaim a device every night, so this is far more than faults need.
MAX_UNCOUNTED_LOSSES = 100


class History(Struct, frozen=True):
    """The failures and losses of a task, including the attempt that just ended."""

    failures: int
    losses: int
    nodes_lost: int  # different nodes on which it was lost
    max_attempts: int
    uncounted_losses: int = 0  # reclaimed, declined, withdrawn, …


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
    detail: str = ""  # replaces the attempt's, if the task ended for another reason than it


def is_counted_loss(reason: EndReason) -> bool:
    """Whether the loss counts towards `MAX_LOSSES` and `POISONED_NODES`."""
    return _is_loss(reason) and reason.facts.is_counted


def is_uncounted_loss(reason: EndReason) -> bool:
    """Whether the loss counts towards `MAX_UNCOUNTED_LOSSES`."""
    return _is_loss(reason) and not reason.facts.is_counted


def loss_bound(reason: EndReason, history: History) -> tuple[EndReason, str] | None:
    """Why a task, or the running item of an array, is given up after this loss, if it is."""
    if is_counted_loss(reason):
        if history.nodes_lost >= POISONED_NODES:
            return EndReason.POISON, f"It was lost on {history.nodes_lost} different nodes."
        if history.losses > MAX_LOSSES:
            detail = f"It was lost {history.losses} times; the last reason was {reason}."
            return EndReason.TOO_MANY_LOSSES, detail
    if is_uncounted_loss(reason) and history.uncounted_losses >= MAX_UNCOUNTED_LOSSES:
        detail = (
            f"It was sent back {history.uncounted_losses} times without a fault of its own;"
            f" the last reason was {reason}."
        )
        return EndReason.TOO_MANY_LOSSES, detail
    return None


def loss_pause(reason: EndReason, history: History, now: datetime, wait: Wait) -> datetime:
    tries = history.losses if is_counted_loss(reason) else history.uncounted_losses
    return wait.until(now, tries)


def _is_loss(reason: EndReason) -> bool:
    return reason.facts.attempt_state is AttemptState.LOST


def decide_next(
    reason: EndReason, history: History, now: datetime, wait: Wait, *, is_failure: bool = False
) -> Next:
    """With `is_failure`, a loss is retried like a failure."""
    match reason.facts.attempt_state:
        case AttemptState.SUCCEEDED:
            return Next(TaskState.SUCCEEDED, reason)
        case AttemptState.CANCELLED if reason.facts.next_try is NextTry.PAUSE:
            return Next(TaskState.QUEUED, reason)
        case AttemptState.CANCELLED:
            return Next(TaskState.CANCELLED, reason)
        case AttemptState.LOST if not is_failure:
            return _after_loss(reason, history, now, wait)
        case _:
            return _after_failure(reason, history, now, wait)


def _after_loss(reason: EndReason, history: History, now: datetime, wait: Wait) -> Next:
    if (bound := loss_bound(reason, history)) is not None:
        return Next(TaskState.FAILED, bound[0], detail=bound[1])
    return Next(TaskState.QUEUED, reason, loss_pause(reason, history, now, wait))


def _after_failure(reason: EndReason, history: History, now: datetime, wait: Wait) -> Next:
    if reason.facts.next_try is NextTry.NEVER or history.failures >= history.max_attempts:
        return Next(TaskState.FAILED, reason)
    return Next(TaskState.QUEUED, reason, wait.until(now, history.failures))
