"""Waits at the start for the services that other machines run: after a power cut all start at once.

Only a service that is away is waited for. A wrong password, an unknown database or an invalid
address is not fixed by waiting, so `check` raises another error for those, which ends the start.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog
from msgspec import Struct

from potluck.model.error import Unavailable

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.25, 2.0
_FIRST_REMINDER_SECONDS, _LONGEST_REMINDER_SECONDS = 5.0, 60.0

log = structlog.get_logger()


class StoppedWaiting(Exception):
    """A signal ended the wait."""


class StartWait(Struct, frozen=True):
    seconds: float
    stop: asyncio.Event
    announce: Callable[[str, str], None]  # the service, and why it is waited for

    async def until_available(self, service: str, check: Callable[[], Awaitable[None]]) -> None:
        """Repeats `check` while it raises Unavailable, and raises that when the time is over.

        Raises StoppedWaiting as soon as the stop is requested.
        """
        clock = asyncio.get_running_loop()
        began_at = remind_at = clock.time()
        pause, reminder = _FIRST_PAUSE_SECONDS, _FIRST_REMINDER_SECONDS
        while True:
            try:
                await self._or_stop(check())
                break
            except Unavailable as error:
                away = error
            now = clock.time()
            left_seconds = began_at + self.seconds - now
            if left_seconds <= 0:
                waited = f" The server waited {self.seconds:g} s for it." if self.seconds else ""
                raise Unavailable(f"{away.detail.rstrip('.')}.{waited}", away.hint) from away
            if now >= remind_at:
                self._say(service, away.detail, left_seconds)
                remind_at, reminder = now + reminder, min(2 * reminder, _LONGEST_REMINDER_SECONDS)
            await self._or_stop(asyncio.sleep(min(pause, left_seconds)))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        if remind_at > began_at:
            log.info("available", service=service)

    def _say(self, service: str, detail: str, left_seconds: float) -> None:
        log.warning("waiting", service=service, detail=detail, seconds_left=round(left_seconds))
        self.announce(service, detail)

    async def _or_stop(self, work: Awaitable[None]) -> None:
        working = asyncio.ensure_future(work)
        stopping = asyncio.create_task(self.stop.wait())
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if self.stop.is_set():
                raise StoppedWaiting
            await working
        finally:
            for task in (working, stopping):
                task.cancel()
            await asyncio.gather(working, stopping, return_exceptions=True)
