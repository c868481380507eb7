"""Whether calls that wait to be sent should share a request with those under way.

Callers that wait for each other's results in threads call again at the same time. Without this they
divide into groups that follow each other, each with its own requests and commits. So calls wait for
the results of the last request if more were in that, and if calls take hardly longer than sending
them does. They wait at most twice as long as calls took lately, and not again after that was too
short. Times are those of a monotonic clock.
"""

from collections.abc import Iterable

# How many times as long as the request itself calls may take from their request to their results.
_MOST_REQUEST_TIMES = 5.0
_NEW_SHARE = 0.25  # of the newest measurement in a smoothed one


class Turnaround:
    """Of the calls of one stream. Not safe for threads by itself."""

    def __init__(self) -> None:
        self._sent_at: dict[int, float] = {}  # by the last call of each request that has no result
        self._last_call = -1  # of the newest request
        self._last_count = 0
        self._request_seconds: float | None = None
        self._seconds: float | None = None  # None: calls are not held back

    def sent(self, last_call: int, count: int, now: float) -> None:
        self._sent_at[last_call] = now
        self._last_call, self._last_count = last_call, count

    def acknowledged(self, seconds: float) -> None:
        """The newest request was answered after this time."""
        self._request_seconds = _smoothed(self._request_seconds, seconds)

    def ended(self, calls: Iterable[int], now: float) -> None:
        """They have their results."""
        for call in calls:
            if (sent_at := self._sent_at.pop(call, None)) is not None:
                self._seconds = _smoothed(self._seconds, now - sent_at)

    def forget(self, calls: Iterable[int]) -> None:
        """They will have no results, or did not run."""
        for call in calls:
            self._sent_at.pop(call, None)

    def gave_up(self) -> None:
        """What was held back was sent before the results came."""
        self._seconds = None

    def hold_until(self, waiting_count: int) -> float | None:
        """Until when so many calls wait for the results of the newest request; None: not at all."""
        sent_at = self._sent_at.get(self._last_call)
        if sent_at is None or waiting_count >= self._last_count:
            return None
        if self._seconds is None or self._request_seconds is None:
            return None
        if self._seconds > _MOST_REQUEST_TIMES * self._request_seconds:
            return None
        return sent_at + 2 * self._seconds


def _smoothed(before: float | None, new: float) -> float:
    return new if before is None else before + _NEW_SHARE * (new - before)
