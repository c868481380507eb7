"""The bandwidth limit of the whole node, in bytes per second, both directions together.

It counts downloads of installations and tasks, and uploads of logs and files. Heartbeats and
reports are not counted: they are small, and leases depend on them.
"""

import asyncio
import time
from contextlib import suppress

# How much unused bandwidth is saved up, or used in advance.
_SLACK_SECONDS = 0.1
_LEAST_PIECE_BYTES = 1024


class Throttle:
    """Callers `take` bytes before they move them. A new limit also applies to waiting callers."""

    def __init__(self, bytes_per_second: int | None = None) -> None:
        self._rate = bytes_per_second
        self._spare_bytes = 0.0
        self._counted_at = time.monotonic()
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()

    def limit(self, bytes_per_second: int | None) -> None:
        """None: unlimited."""
        self._count()
        self._rate = bytes_per_second
        if bytes_per_second is not None:
            slack_bytes = bytes_per_second * _SLACK_SECONDS
            self._spare_bytes = max(-slack_bytes, min(slack_bytes, self._spare_bytes))
        self._changed.set()

    def piece_bytes(self, most_bytes: int) -> int:
        """How much to move at a time, so that one caller does not occupy a slow line for long."""
        if self._rate is None:
            return most_bytes
        return max(_LEAST_PIECE_BYTES, min(most_bytes, int(self._rate * _SLACK_SECONDS)))

    async def take(self, size_bytes: int) -> None:
        """Returns when this many bytes may pass, first come, first served."""
        if self._rate is None:
            return
        async with self._turn:
            while (seconds := self._seconds_to_wait()) > 0:
                self._changed.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._changed.wait()
            self._spare_bytes -= size_bytes

    def _seconds_to_wait(self) -> float:
        """Until the bytes taken in advance are made up for."""
        self._count()
        if self._rate is None:
            return 0.0
        return max(0.0, -self._spare_bytes / self._rate)

    def _count(self) -> None:
        now = time.monotonic()
        if self._rate is not None:
            gained = (now - self._counted_at) * self._rate
            self._spare_bytes = min(self._rate * _SLACK_SECONDS, self._spare_bytes + gained)
        self._counted_at = now
