"""The database's time, by which every instance signs, verifies and names.

The machines of two instances may disagree about the time, so a token of one would be expired, or
from the future, at the other. Each instance therefore keeps the difference between the database's
clock and a clock of its own that only counts forward: setting the machine's clock changes nothing.
"""

import time
from datetime import UTC, datetime

# Also counts while a machine sleeps, if the system has such a clock.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", None)


def elapsed_seconds() -> float:
    """Seconds since an arbitrary moment; never goes back and cannot be set."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


class DatabaseClock:
    """The machine's time until the first measurement."""

    def __init__(self) -> None:
        self._offset_seconds = time.time() - elapsed_seconds()
        self._is_measured = False

    def now(self) -> datetime:
        return datetime.fromtimestamp(elapsed_seconds() + self._offset_seconds, UTC)

    @property
    def skew_seconds(self) -> float:
        """How far this machine's clock is ahead of the database's."""
        return time.time() - elapsed_seconds() - self._offset_seconds

    def adjust(self, asked_at: float, answered_at: float, database_time: datetime) -> None:
        """Takes the time that the database read between two moments of `elapsed_seconds`.

        The offset lies between the two that these moments imply. It moves no further than into
        that range: a slow response is a wide range, and does not make the clock worse.
        """
        assert asked_at <= answered_at
        earliest = database_time.timestamp() - answered_at
        latest = database_time.timestamp() - asked_at
        if self._is_measured:
            self._offset_seconds = min(max(self._offset_seconds, earliest), latest)
        else:
            self._offset_seconds = (earliest + latest) / 2
            self._is_measured = True
