"""Counts the requests of this instance over the last minutes, for alerts."""

import time
from collections import deque
from collections.abc import Callable

from potluck.decide.alerts.conditions import RequestCounts

_SLICES = 10


class _TallySlice:
    """A part of the window."""

    __slots__ = ("began_at", "errors", "requests", "slow", "timed")

    def __init__(self, began_at: float) -> None:
        self.began_at = began_at
        self.requests = self.errors = self.timed = self.slow = 0


class RequestTally:
    """Costs less than a microsecond for each request."""

    def __init__(
        self,
        window_seconds: float = 300.0,
        slow_seconds: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._slice_seconds = window_seconds / _SLICES
        self._slow_seconds = slow_seconds
        self._clock = clock
        self.open = 0  # requests that are being answered
        self._slices: deque[_TallySlice] = deque([_TallySlice(clock())], maxlen=_SLICES + 1)

    def count(self, status: int, seconds: float | None) -> None:
        """`seconds` is None for a request that waits on purpose."""
        current = self._current()
        current.requests += 1
        if status >= 500:
            current.errors += 1
        if seconds is not None:
            current.timed += 1
            if seconds > self._slow_seconds:
                current.slow += 1

    def read(self) -> RequestCounts:
        self._current()
        since = self._clock() - _SLICES * self._slice_seconds
        slices = [slice_ for slice_ in self._slices if slice_.began_at >= since]
        return RequestCounts(
            sum(slice_.requests for slice_ in slices),
            sum(slice_.errors for slice_ in slices),
            sum(slice_.timed for slice_ in slices),
            sum(slice_.slow for slice_ in slices),
        )

    def _current(self) -> _TallySlice:
        now = self._clock()
        if now - self._slices[-1].began_at >= self._slice_seconds:
            self._slices.append(_TallySlice(now))
        return self._slices[-1]
