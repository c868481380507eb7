"""The live state of a server with one instance, in its own memory.

Memory is bounded by the valid values: every `put` and `append` removes some expired ones.
"""

import heapq
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

from potluck.live.interface import MOST_MESSAGES, Listener
from potluck.live.listeners import Listeners
from potluck.live.token_buckets import Buckets

# More than one, so that expired series shrink; few, so that no single call takes long.
_CLEARED_PER_APPEND = 4


class _ValueSeries:
    def __init__(self, expires_at: float) -> None:
        self.values: deque[bytes] = deque()
        self.expires_at = expires_at


class AllSeries:
    def __init__(self) -> None:
        self._by_key: dict[str, _ValueSeries] = {}
        self._order: list[tuple[float, str]] = []  # a heap, one entry for each series

    def __len__(self) -> int:
        return len(self._by_key)

    def append(self, key: str, value: bytes, most: int, ttl_seconds: float, now: float) -> None:
        self._clear_expired(now)
        series = self._alive(key, now)
        if series is None:
            series = self._by_key[key] = _ValueSeries(now + ttl_seconds)
            heapq.heappush(self._order, (series.expires_at, key))
        series.expires_at = now + ttl_seconds
        series.values.append(value)
        while len(series.values) > most:
            series.values.popleft()

    def values(self, key: str, now: float) -> list[bytes]:
        series = self._alive(key, now)
        return [] if series is None else list(series.values)

    def clear(self) -> None:
        self._by_key.clear()
        self._order.clear()

    def _alive(self, key: str, now: float) -> _ValueSeries | None:
        series = self._by_key.get(key)
        return series if series is not None and series.expires_at > now else None

    def _clear_expired(self, now: float) -> None:
        for _ in range(_CLEARED_PER_APPEND):
            if not self._order or self._order[0][0] > now:
                return
            _, key = heapq.heappop(self._order)
            series = self._by_key.get(key)
            if series is None:
                continue
            if series.expires_at <= now:
                del self._by_key[key]
            else:  # it has grown since
                heapq.heappush(self._order, (series.expires_at, key))


# More than one, so that expired values shrink; few, so that no single put takes long.
_CLEARED_PER_PUT = 16


class _ExpiringValue(NamedTuple):
    data: bytes
    expires_at: float


class InProcessLive:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._listeners = Listeners()
        self._buckets = Buckets()
        self._values: dict[str, _ExpiringValue] = {}
        self._series = AllSeries()
        self._boxes: dict[str, deque[bytes]] = {}
        self._expiries: list[tuple[float, str]] = []  # a heap, the next to expire first

    async def wake(self, topic: str) -> None:
        self._listeners.wake(topic)

    def listen(self, *topics: str) -> AbstractAsyncContextManager[Listener]:
        return self._listeners.listen(*topics)

    async def put(self, key: str, value: bytes, ttl_seconds: float) -> None:
        now = self._clock()
        self._clear_expired(now)
        self._values[key] = _ExpiringValue(value, now + ttl_seconds)
        heapq.heappush(self._expiries, (now + ttl_seconds, key))

    async def get(self, key: str) -> bytes | None:
        value = self._values.get(key)
        if value is None or value.expires_at <= self._clock():
            return None
        return value.data

    async def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        return [await self.get(key) for key in keys]

    async def drop(self, key: str) -> None:
        self._values.pop(key, None)

    async def append(self, key: str, value: bytes, most: int, ttl_seconds: float) -> None:
        self._series.append(key, value, most, ttl_seconds, self._clock())

    async def series(self, key: str) -> list[bytes]:
        return self._series.values(key, self._clock())

    async def post(self, box: str, message: bytes) -> None:
        self._boxes.setdefault(box, deque(maxlen=MOST_MESSAGES)).append(message)

    async def collect(self, box: str) -> list[bytes]:
        return list(self._boxes.pop(box, ()))

    async def take(self, key: str, per_second: float, burst: int) -> float:
        return self._buckets.take(key, per_second, burst, self._clock())

    async def peek(self, key: str, per_second: float, burst: int) -> float:
        return self._buckets.peek(key, per_second, burst, self._clock())

    async def ping(self) -> bool:
        return True

    async def close(self) -> None:
        self._buckets.clear()
        self._values.clear()
        self._series.clear()
        self._expiries.clear()

    def _clear_expired(self, now: float) -> None:
        for _ in range(_CLEARED_PER_PUT):
            if not self._expiries or self._expiries[0][0] > now:
                return
            _, key = heapq.heappop(self._expiries)
            value = self._values.get(key)
            if value is not None and value.expires_at <= now:  # it was not put again meanwhile
                del self._values[key]
