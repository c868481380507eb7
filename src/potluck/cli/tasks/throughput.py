"""How fast an array goes, and how long its rest will take at that."""

import time
from collections import deque
from collections.abc import Callable

from potluck.cli.terminal.units import show_seconds
from potluck.wire.consumer import ItemCounts

# What was longer ago says little about how it goes now.
_WINDOW_SECONDS = 60.0
_LEAST_SECONDS = 1.0


class Pace:
    """Told of the counts as they come."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque()

    def told(self, counts: ItemCounts) -> str:
        """Such as ` · 13 a second · 6 s left`; nothing before anything is known."""
        now, done = self._clock(), counts.succeeded + counts.failed
        self._seen.append((now, done))
        while now - self._seen[0][0] > _WINDOW_SECONDS and len(self._seen) > 2:
            self._seen.popleft()
        began, before = self._seen[0]
        if done <= before or now - began < _LEAST_SECONDS:
            return ""
        rate = (done - before) / (now - began)
        left = (counts.total - done) / rate
        return f" · {_rate(rate)} · {show_seconds(left)} left"


def _rate(a_second: float) -> str:
    if a_second >= 1:
        return f"{a_second:,.0f} a second" if a_second >= 10 else f"{a_second:.1f} a second"
    a_minute = a_second * 60
    return f"{a_minute:.1f} a minute" if a_minute >= 1 else f"{a_minute * 60:.1f} an hour"
