"""How often tasks of a shape start while there is a line of them, lately."""

from math import exp, log

from msgspec import Struct

# Starts this long ago count half.
HALF_LIFE_SECONDS = 1800.0
_FADING = log(2) / HALF_LIFE_SECONDS
# Fewer starts are no basis for a guess.
LEAST_STARTS = 3.0
# Who waited for less found room that was free: that says nothing about how fast a line moves.
_NO_WAIT_SECONDS = 1.0
_MOST_SHAPES = 10_000


class _Rate(Struct):
    starts: float
    seconds: float  # in which somebody waited for these starts: quiet times do not count
    at: float

    def fade_to(self, now: float) -> None:
        if now != self.at:
            left = exp(-_FADING * max(0.0, now - self.at))
            self.starts, self.seconds, self.at = self.starts * left, self.seconds * left, now


class Rates:
    def __init__(self) -> None:
        self._rates: dict[object, _Rate] = {}

    def count(self, shape: object, waits_since: float, now: float) -> None:
        rate = self._rates.get(shape)
        if rate is None:
            if len(self._rates) >= _MOST_SHAPES:
                self._rates.pop(next(iter(self._rates)))
            rate = self._rates[shape] = _Rate(0.0, 0.0, now)
        waited = max(0.0, now - max(rate.at, waits_since))
        rate.fade_to(now)
        rate.seconds += waited
        if now - waits_since >= _NO_WAIT_SECONDS:
            rate.starts += 1

    def each_seconds(self, shape: object, waits_since: float, now: float) -> float | None:
        """How many seconds pass from one start to the next for one who waits since then.

        None if there were too few starts.
        """
        rate = self._rates.get(shape)
        if rate is None:
            return None
        left = exp(-_FADING * max(0.0, now - rate.at))
        waited = max(0.0, now - max(rate.at, waits_since))
        starts = rate.starts * left
        return (rate.seconds * left + waited) / starts if starts >= LEAST_STARTS else None
