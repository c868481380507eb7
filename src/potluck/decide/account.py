"""An account as the scheduler knows it: what it may spend, and how much of the pool it has had."""

from math import exp, log
from typing import Self

from potluck.decide.types import AccountShare
from potluck.model.ids import AccountId

# What an account used this long ago counts half.
HALF_LIFE_SECONDS = 6 * 3600.0
_MICROSECONDS_PER_HOUR = 3_600_000_000
_FADING = log(2) / HALF_LIFE_SECONDS


class SchedulerAccount:
    """What is planned counts at once; what the database says replaces it when it is read again."""

    __slots__ = (
        "_recent_at",
        "_recent_milli_seconds",
        "id",
        "most_running_milli",
        "planned_micro",
        "purse_micro",
        "running_milli",
        "served_at",
        "turn",
        "weight",
    )

    def __init__(self, account_id: AccountId) -> None:
        self.id = account_id
        self.purse_micro = 0
        self.planned_micro = 0  # holds of assignments that may not be in the database yet
        self.weight = 1.0
        self.most_running_milli: int | None = None
        self.running_milli = 0
        self.served_at = 0.0
        self.turn = 0  # the number of the assignment that it got last, over all accounts
        self._recent_milli_seconds = 0.0
        self._recent_at: float | None = None

    def read(self, share: AccountShare) -> Self:
        """Takes over what the database says."""
        self.purse_micro = share.available_micro
        self.weight = share.weight
        self.most_running_milli = share.most_running_milli
        return self

    def recall(self, used_milli_seconds: float, until: float) -> None:
        """Adds what it had used, fading, by a time from which on it was counted here."""
        if self._recent_at is None:
            self._recent_at = until
        since = max(0.0, self._recent_at - until)
        self._recent_milli_seconds += used_milli_seconds * exp(-_FADING * since)

    def have(self, milli: int, now: float) -> None:
        """From now on it has so much more of devices, or less; until now it had what it had."""
        self._fade(now)
        self.running_milli += milli

    @property
    def available_micro(self) -> int:
        return self.purse_micro - self.planned_micro

    def dearest_price(self, run_seconds: float) -> int:
        """The highest price by the hour whose hold for so long it can pay."""
        microseconds = max(1, round(run_seconds * 1_000_000))
        return max(0, self.available_micro) * _MICROSECONDS_PER_HOUR // microseconds

    def use(self, now: float) -> float:
        """What it has of the pool and lately had, for each unit of its weight."""
        self._fade(now)
        current = self.running_milli * HALF_LIFE_SECONDS
        return (self._recent_milli_seconds + current) / self.weight

    def waited_seconds(self, since: float, now: float) -> float:
        """How long it has got nothing at all while it wanted something."""
        return now - max(since, self.served_at)

    def _fade(self, now: float) -> None:
        """Old use counts less and less, and what it has had since is added.

        A moment that is known already is not gone through again: after a reading that failed, time
        begins once more where that had begun.
        """
        if self._recent_at is None:
            self._recent_at = now
        if now <= self._recent_at:
            return
        left = exp(-_FADING * (now - self._recent_at))
        grown = self.running_milli * (1 - left) / _FADING
        self._recent_milli_seconds = self._recent_milli_seconds * left + grown
        self._recent_at = now


def lately_used(milli: int, began_at: float, ended_at: float, now: float) -> float:
    """What it counts now, in milli seconds, to have had so much of devices for that time."""
    if ended_at <= began_at:
        return 0.0
    left = [exp(-_FADING * max(0.0, now - at)) for at in (began_at, ended_at)]
    return milli * (left[1] - left[0]) / _FADING
