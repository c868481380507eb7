"""Redis is away: fail softly, and do not ask again at once, so that nobody waits for it in vain."""

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
    """Remembers the last failure; says so in the log once in a while."""

    def __init__(self) -> None:
        self._retry_at = 0.0
        self._remind_at = 0.0

    async def softly(self, ask: Callable[[], Awaitable[T]], otherwise: T) -> T:
        """The answer, or `otherwise` when there is none to be had just now."""
        if time.monotonic() < self._retry_at:
            return otherwise
        try:
            return await ask()
        except (RedisError, OSError) as error:
            self.note(error)
            return otherwise

    def note(self, error: Exception) -> None:
        now = time.monotonic()
        self._retry_at = now + _RETRY_SECONDS
        if now >= self._remind_at:
            self._remind_at = now + _REMIND_SECONDS
            log.warning(
                "Redis does not answer; working on without it, more slowly",
                error=type(error).__name__,
            )
