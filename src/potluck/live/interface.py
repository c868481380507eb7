"""The server's live state: wake-ups, expiring values, and shared rate limits.

None of it is authoritative. A woken listener reads the truth from PostgreSQL, a missed wake-up is
made up for by polling, and a missing value is computed again. So no call fails because the live
state is unavailable: the platform only slows down.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

# Kept in a box that is not collected from; the newest.
MOST_MESSAGES = 1_000


class Listener(Protocol):
    """Receives the wake-ups of its topics from the moment of listening on."""

    async def wait(self, timeout_seconds: float) -> bool:
        """True when one of the topics was woken since the last wait; many wakes count as one."""
        ...

    def take_wake(self) -> bool:
        """The same without waiting."""
        ...

    def wake(self) -> None:
        """Wakes this listener alone."""
        ...


class Live(Protocol):
    """Shared by all instances of one server, or private to the only one."""

    async def wake(self, topic: str) -> None:
        """Wakes the listeners of this topic, in this instance and in the others."""
        ...

    def listen(self, *topics: str) -> AbstractAsyncContextManager[Listener]:
        """A wake between two waits is not missed; one during an outage may be late."""
        ...

    async def put(self, key: str, value: bytes, ttl_seconds: float) -> None: ...

    async def get(self, key: str) -> bytes | None: ...

    async def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """A value or None for each key, in order."""
        ...

    async def drop(self, key: str) -> None: ...

    async def append(self, key: str, value: bytes, most: int, ttl_seconds: float) -> None:
        """Appends to a series of the `most` newest values, which expires `ttl_seconds` after the
        last one."""
        ...

    async def series(self, key: str) -> list[bytes]:
        """The values, oldest first."""
        ...

    async def post(self, box: str, message: bytes) -> None:
        """Posts a message to a box, which keeps few messages, and not for long."""
        ...

    async def collect(self, box: str) -> list[bytes]:
        """The messages since the last call, oldest first; each goes to one collector."""
        ...

    async def take(self, key: str, per_second: float, burst: int) -> float:
        """Takes a token from the bucket of this key: zero, or the seconds until the next try.

        During an outage each instance counts for itself.
        """
        ...

    async def peek(self, key: str, per_second: float, burst: int) -> float:
        """The result that `take` would have now; takes nothing."""
        ...

    async def ping(self) -> bool:
        """Whether the live state is available now."""
        ...

    async def close(self) -> None: ...
