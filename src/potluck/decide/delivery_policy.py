"""What follows from a try to deliver an event: it is over, tried again, given up, or all is paused.

A receiver that is away is tried now and then with one event, whichever it is, and the rest waits.
One that only refuses some event gets the others: that event alone is given up when its time is
over.
"""

from datetime import datetime, timedelta
from typing import TypeAlias

from msgspec import Struct

from potluck.model.backoff import BackOff
from potluck.model.webhook import PauseReason

_GONE = 410


class DeliveryRules(Struct, frozen=True):
    back_off: BackOff
    give_up: timedelta  # after so long without success


class DeliveryTry(Struct, frozen=True):
    """A try, and what was known before it."""

    number: int  # of this try, from 1
    first_at: datetime  # the first try of this delivery
    failures: int  # of the webhook in a row, without this one
    failing_since: datetime | None  # the first of these
    succeeded_at: datetime | None  # of the webhook, with anything
    status: int | None  # None: no answer
    asked_seconds: float = 0.0  # not before so long, the receiver said


class DeliveryDone(Struct, frozen=True):
    pass


class RetryLater(Struct, frozen=True):
    next_at: datetime  # this one
    others_at: datetime  # anything to the same address


class GivenUp(Struct, frozen=True):
    others_at: datetime


class Paused(Struct, frozen=True):
    reason: PauseReason


Verdict: TypeAlias = DeliveryDone | RetryLater | GivenUp | Paused


def judge(tried: DeliveryTry, rules: DeliveryRules, now: datetime, jitter: float) -> Verdict:
    """`jitter` is a number from 0 to 1; half of each pause is certain, the rest is drawn by it."""
    if tried.status is not None and 200 <= tried.status < 300:
        return DeliveryDone()
    if tried.status == _GONE:
        return Paused(PauseReason.GONE)
    others_at = now + _pause(tried.failures + 1, rules, tried.asked_seconds, jitter)
    last_at = tried.first_at + rules.give_up
    is_well = tried.succeeded_at is not None and tried.succeeded_at > tried.first_at
    if is_well and now >= last_at:
        return GivenUp(others_at)
    # However many events took turns: it is the receiver that is away.
    pause_at = (tried.failing_since or now) + rules.give_up
    if now >= pause_at:
        return Paused(PauseReason.FAILING)
    next_at = now + _pause(tried.number, rules, tried.asked_seconds, jitter)
    # Once more when the time is over, and not a whole pause later.
    return RetryLater(min(next_at, last_at if is_well else pause_at), min(others_at, pause_at))


def _pause(failures: int, rules: DeliveryRules, asked_seconds: float, jitter: float) -> timedelta:
    own = rules.back_off.seconds(failures, 0.5 + jitter / 2)
    return timedelta(seconds=max(own, min(asked_seconds, rules.back_off.longest_seconds)))
