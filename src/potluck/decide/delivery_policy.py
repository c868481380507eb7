"""Decides what follows a webhook delivery: done, retry, give up, or pause the webhook.

An unreachable receiver is retried from time to time with one event, and the others wait. A receiver
that refuses only one event gets the others; that event alone is given up when its time is over.
"""

from datetime import datetime, timedelta
from typing import TypeAlias

from msgspec import Struct

from potluck.model.backoff import BackOff
from potluck.model.webhook import PauseReason

_GONE = 410


class DeliveryRules(Struct, frozen=True):
    back_off: BackOff
    give_up: timedelta  # after this time without success


class DeliveryTry(Struct, frozen=True):
    """A delivery attempt, and the state before it."""

    number: int  # of this try, from 1
    first_at: datetime  # the first try of this delivery
    failures: int  # consecutive failures of the webhook, without this one
    failing_since: datetime | None  # the first of these
    succeeded_at: datetime | None  # last success of the webhook, with any event
    status: int | None  # None: no response
    asked_seconds: float = 0.0  # Retry-After of the receiver


class DeliveryDone(Struct, frozen=True):
    pass


class RetryLater(Struct, frozen=True):
    next_at: datetime  # for this event
    others_at: datetime  # for any event of the webhook


class GivenUp(Struct, frozen=True):
    others_at: datetime


class Paused(Struct, frozen=True):
    reason: PauseReason


Verdict: TypeAlias = DeliveryDone | RetryLater | GivenUp | Paused


def decide_delivery(
    tried: DeliveryTry, rules: DeliveryRules, now: datetime, jitter: float
) -> Verdict:
    """`jitter` is from 0 to 1 and scales the second half of each pause."""
    if tried.status is not None and 200 <= tried.status < 300:
        return DeliveryDone()
    if tried.status == _GONE:
        return Paused(PauseReason.GONE)
    others_at = now + _pause(tried.failures + 1, rules, tried.asked_seconds, jitter)
    last_at = tried.first_at + rules.give_up
    is_well = tried.succeeded_at is not None and tried.succeeded_at > tried.first_at
    if is_well and now >= last_at:
        return GivenUp(others_at)
    # Counted over all events: the receiver is unreachable.
    pause_at = (tried.failing_since or now) + rules.give_up
    if now >= pause_at:
        return Paused(PauseReason.FAILING)
    next_at = now + _pause(tried.number, rules, tried.asked_seconds, jitter)
    # The last attempt is at the deadline, not a whole pause later.
    return RetryLater(min(next_at, last_at if is_well else pause_at), min(others_at, pause_at))


def _pause(failures: int, rules: DeliveryRules, asked_seconds: float, jitter: float) -> timedelta:
    own = rules.back_off.seconds(failures, 0.5 + jitter / 2)
    return timedelta(seconds=max(own, min(asked_seconds, rules.back_off.longest_seconds)))
