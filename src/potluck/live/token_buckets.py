"""Token buckets of one process: each allows a burst, and then a rate per second.

A bucket is one number, the time at which it is full again (the generic cell rate algorithm). Full
buckets are removed, so memory is bounded by the recently used keys.
"""

import heapq

# More than one, so that full buckets shrink; few, so that no single call takes long.
_CLEARED_PER_TAKE = 8
# Sums of fractions are not exact; a caller that waited as long as requested is not early.
_NOISE_SECONDS = 1e-6


class Buckets:
    def __init__(self) -> None:
        self._full_at: dict[str, float] = {}
        self._order: list[tuple[float, str]] = []  # a heap, the next to be full first

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, key: str, per_second: float, burst: int, now: float) -> float:
        """Zero if a token was taken, else the seconds until there is one."""
        self._clear_full(now)
        wait_seconds = self.peek(key, per_second, burst, now)
        if wait_seconds:
            return wait_seconds
        full_at = self._after_one_more(key, per_second, now)
        if key not in self._full_at:
            heapq.heappush(self._order, (full_at, key))
        self._full_at[key] = full_at
        return 0.0

    def peek(self, key: str, per_second: float, burst: int, now: float) -> float:
        """The result that `take` would have; takes nothing."""
        full_at = self._after_one_more(key, per_second, now)
        too_early_seconds = full_at - burst / per_second - now
        return too_early_seconds if too_early_seconds > _NOISE_SECONDS else 0.0

    def _after_one_more(self, key: str, per_second: float, now: float) -> float:
        return max(now, self._full_at.get(key, now)) + 1 / per_second

    def clear(self) -> None:
        self._full_at.clear()
        self._order.clear()

    def _clear_full(self, now: float) -> None:
        for _ in range(_CLEARED_PER_TAKE):
            if not self._order or self._order[0][0] > now:
                return
            _, key = heapq.heappop(self._order)
            full_at = self._full_at[key]
            if full_at <= now:
                del self._full_at[key]
            else:  # something was taken since
                heapq.heappush(self._order, (full_at, key))
