"""How often tasks of a shape start, lately."""

from math import exp, log

from msgspec import Struct

# Starts this long ago count half.
HALF_LIFE_SECONDS = 1800.0
_FADING = log(2) / HALF_LIFE_SECONDS
# Fewer starts are no basis for a guess.
LEAST_STARTS = 3.0
_MOST_SHAPES = 10_000


class _Rate(Struct):
    starts: float
    at: float


class Rates:
    def __init__(self) -> None:
        self._rates: dict[object, _Rate] = {}

    def count(self, shape: object, now: float) -> None:
        rate = self._rates.get(shape)
        if rate is None:
            if len(self._rates) >= _MOST_SHAPES:
                self._rates.pop(next(iter(self._rates)))
            rate = self._rates[shape] = _Rate(0.0, now)
        rate.starts = rate.starts * exp(-_FADING * max(0.0, now - rate.at)) + 1
        rate.at = now

    def each_seconds(self, shape: object, now: float) -> float | None:
        """How many seconds pass from one start to the next; None if there were too few."""
        rate = self._rates.get(shape)
        if rate is None:
            return None
        starts = rate.starts * exp(-_FADING * max(0.0, now - rate.at))
        return 1 / (_FADING * starts) if starts >= LEAST_STARTS else None
