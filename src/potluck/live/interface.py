"""What the server asks of the live side: wake-ups, values that expire, and shared counting.

Nothing in it is truth. Whoever is woken reads the truth from PostgreSQL; whoever is not woken looks
again after a while; a value that is gone is computed again. So no call here ever fails because the
live side is away: the platform slows down and lives on.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

# The newest so many are kept in a box that nobody collects from.
MOST_MESSAGES = 1_000


class Listener(Protocol):
    """Somebody who wants to know of a wake-up, from the moment of listening on."""

    async def wait(self, timeout_seconds: float) -> bool:
        """True when one of the topics was woken since the last wait; many wakes count as one."""
        ...


class Live(Protocol):
    """Shared by all instances of one server, or private to the only one."""

    async def wake(self, topic: str) -> None:
        """Tells everybody who listens to this topic, in this instance and in the others."""
        ...

    def listen(self, *topics: str) -> AbstractAsyncContextManager[Listener]:
        """A wake between two waits is not missed; one while the live side is away may be late."""
        ...

    async def put(self, key: str, value: bytes, ttl_seconds: float) -> None: ...

    async def get(self, key: str) -> bytes | None: ...

    async def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """One answer for each key, in their order."""
        ...

    async def drop(self, key: str) -> None: ...

    async def append(self, key: str, value: bytes, most: int, ttl_seconds: float) -> None:
        """To a series that keeps its newest so many, until it has not grown for so long."""
        ...

    async def series(self, key: str) -> list[bytes]:
        """Oldest first; empty where nothing is kept."""
        ...

    async def post(self, box: str, message: bytes) -> None:
        """For whoever collects from this box. It keeps few messages, and not for long."""
        ...

    async def collect(self, box: str) -> list[bytes]:
        """What was posted since, oldest first; each message goes to one collector."""
        ...

    async def take(self, key: str, per_second: float, burst: int) -> float:
        """From the token bucket of this key: zero, or after how many seconds to ask again.

        While the live side is away each instance counts for itself.
        """
        ...

    async def peek(self, key: str, per_second: float, burst: int) -> float:
        """What `take` would say just now; nothing is taken."""
        ...

    async def ping(self) -> bool:
        """Whether the live side answers just now."""
        ...

    async def close(self) -> None: ...
