"""An account as the scheduler sees it: its credit, its quota, and its recent use of the pool."""

from math import exp, log
from typing import Self

from potluck.decide.types import AccountShare
from potluck.model.ids import AccountId

# Use that is this old counts half.
HALF_LIFE_SECONDS = 6 * 3600.0
_MICROSECONDS_PER_HOUR = 3_600_000_000
_FADING = log(2) / HALF_LIFE_SECONDS


class SchedulerAccount:
    """Planned assignments count immediately; the next read from the database replaces them."""

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
        self.turn = 0  # number of its last assignment, counted over all accounts
        self._recent_milli_seconds = 0.0
        self._recent_at: float | None = None

    def read(self, share: AccountShare) -> Self:
        self.purse_micro = share.available_micro
        self.weight = share.weight
        self.most_running_milli = share.most_running_milli
        return self

    def recall(self, used_milli_seconds: float, until: float) -> None:
        """Adds decayed use from before `until`, the time from which it is counted here."""
        if self._recent_at is None:
            self._recent_at = until
        since = max(0.0, self._recent_at - until)
        self._recent_milli_seconds += used_milli_seconds * exp(-_FADING * since)

    def have(self, milli: int, now: float) -> None:
        """Changes its running device share by `milli`, which may be negative, from now on."""
        if now != self._recent_at:
            self._fade(now)
        self.running_milli += milli

    @property
    def available_micro(self) -> int:
        return self.purse_micro - self.planned_micro

    def dearest_price(self, run_seconds: float) -> int:
        """The highest hourly price whose hold for `run_seconds` it can pay."""
        microseconds = max(1, round(run_seconds * 1_000_000))
        return max(0, self.available_micro) * _MICROSECONDS_PER_HOUR // microseconds

    def use(self, now: float) -> float:
        """Its current and recent share of the pool, per unit of weight."""
        if now != self._recent_at:
            self._fade(now)
        current = self.running_milli * HALF_LIFE_SECONDS
        return (self._recent_milli_seconds + current) / self.weight

    def waited_seconds(self, since: float, now: float) -> float:
        """How long it has waited without getting anything."""
        return now - max(since, self.served_at)

    def _fade(self, now: float) -> None:
        """Decays old use and adds the use since the last call.

        A `now` before the last call changes nothing: after a failed read, time restarts where the
        read had started.
        """
        if self._recent_at is None:
            self._recent_at = now
        if now <= self._recent_at:
            return
        left = exp(-_FADING * (now - self._recent_at))
        grown = self.running_milli * (1 - left) / _FADING
        self._recent_milli_seconds = self._recent_milli_seconds * left + grown
        self._recent_at = now


def decayed_use(milli: int, began_at: float, ended_at: float, now: float) -> float:
    """The decayed use, in device-milli seconds, of a device share held from start to end."""
    if ended_at <= began_at:
        return 0.0
    left = [exp(-_FADING * max(0.0, now - at)) for at in (began_at, ended_at)]
    return milli * (left[1] - left[0]) / _FADING
