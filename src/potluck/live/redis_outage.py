"""Outages of Redis: calls return a default, and are not tried again for a moment."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog
from redis import RedisError

_RETRY_SECONDS = 0.5
_REMIND_SECONDS = 30.0

T = TypeVar("T")

log = structlog.get_logger()


class Outage:
    """Remembers the last failure, and logs an outage now and then.

    Calls wait for one of `connections`. A long queue is not an outage, and once there is one, what
    waited in the queue does not try Redis again.
    """

    def __init__(self, connections: int) -> None:
        self._connections = asyncio.Semaphore(connections)
        self._retry_at = 0.0
        self._remind_at = 0.0

    async def call_or_default(self, call: Callable[[], Awaitable[T]], otherwise: T) -> T:
        """The result of the call, or `otherwise` during an outage."""
        async with self._connections:
            if time.monotonic() < self._retry_at:
                return otherwise
            try:
                return await call()
            except (RedisError, OSError) as error:
                self.note(error)
                return otherwise

    def note(self, error: Exception) -> None:
        now = time.monotonic()
        self._retry_at = now + _RETRY_SECONDS
        if now >= self._remind_at:
            self._remind_at = now + _REMIND_SECONDS
            log.warning(
                "Redis does not answer; continuing without it, more slowly",
                error=type(error).__name__,
            )
