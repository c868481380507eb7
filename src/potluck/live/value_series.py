"""Series of values in one process: the newest so many of each, until it stops growing.

What has not grown for long is cleared away, a little with every value that is added.
"""

import heapq
from collections import deque

# More than one, so that what has expired shrinks; few, so that no single call takes long.
_CLEARED_PER_APPEND = 4


class _Series:
    def __init__(self, expires_at: float) -> None:
        self.values: deque[bytes] = deque()
        self.expires_at = expires_at


class AllSeries:
    def __init__(self) -> None:
        self._by_key: dict[str, _Series] = {}
        self._order: list[tuple[float, str]] = []  # a heap, one entry for each series

    def __len__(self) -> int:
        return len(self._by_key)

    def append(self, key: str, value: bytes, most: int, ttl_seconds: float, now: float) -> None:
        self._clear_expired(now)
        found = self._alive(key, now)
        if found is None:
            found = self._by_key[key] = _Series(now + ttl_seconds)
            heapq.heappush(self._order, (found.expires_at, key))
        found.expires_at = now + ttl_seconds
        found.values.append(value)
        while len(found.values) > most:
            found.values.popleft()

    def values(self, key: str, now: float) -> list[bytes]:
        found = self._alive(key, now)
        return [] if found is None else list(found.values)

    def clear(self) -> None:
        self._by_key.clear()
        self._order.clear()

    def _alive(self, key: str, now: float) -> _Series | None:
        found = self._by_key.get(key)
        return found if found is not None and found.expires_at > now else None

    def _clear_expired(self, now: float) -> None:
        for _ in range(_CLEARED_PER_APPEND):
            if not self._order or self._order[0][0] > now:
                return
            _, key = heapq.heappop(self._order)
            found = self._by_key.get(key)
            if found is None:
                continue
            if found.expires_at <= now:
                del self._by_key[key]
            else:  # it has grown since
                heapq.heappush(self._order, (found.expires_at, key))
