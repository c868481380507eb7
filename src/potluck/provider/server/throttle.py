"""How much of the owner's line tasks may take: so many bytes a second for the whole node.

What installations and tasks fetch and what logs and files send is counted, in both directions
together. Heartbeats and reports are not: they are small, and the node lives by them.
"""

import asyncio
import time
from contextlib import suppress

# How far what was not used can be saved up, or used in advance.
_SLACK_SECONDS = 0.1
_LEAST_PIECE_BYTES = 1024


class Throttle:
    """Whoever moves bytes takes them here first. The limit can be set at any time, and acts at
    once, also on those who wait."""

    def __init__(self, bytes_per_second: int | None = None) -> None:
        self._rate = bytes_per_second
        self._spare_bytes = 0.0
        self._counted_at = time.monotonic()
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()

    def limit(self, bytes_per_second: int | None) -> None:
        """None: as much as the line takes."""
        self._count()
        self._rate = bytes_per_second
        if bytes_per_second is not None:
            slack_bytes = bytes_per_second * _SLACK_SECONDS
            self._spare_bytes = max(-slack_bytes, min(slack_bytes, self._spare_bytes))
        self._changed.set()

    def piece_bytes(self, most_bytes: int) -> int:
        """How much to move at a time, so that a slow line is not taken for long by one."""
        if self._rate is None:
            return most_bytes
        return max(_LEAST_PIECE_BYTES, min(most_bytes, int(self._rate * _SLACK_SECONDS)))

    async def take(self, size_bytes: int) -> None:
        """Returns when so many bytes may pass; those who came first go first."""
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
        """Until what was taken in advance is made up for."""
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
