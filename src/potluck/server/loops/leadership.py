"""Leads, or stands by: renews the leader's row, and runs the duties while it holds it.

Whoever loses the row stops its duties at once; what they had planned names an old term and changes
nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from potluck.model.error import Unavailable
from potluck.server.flow.housekeeping.expire import begin_term
from potluck.server.leader.memory import LeaderMemory
from potluck.server.loops.expire import ExpireLoop
from potluck.server.loops.garbage import GarbageLoop
from potluck.server.loops.invariant_check import InvariantCheckLoop
from potluck.server.loops.leader_rpc import LeaderRpcLoop
from potluck.server.loops.outbox import NotifyLoop
from potluck.server.loops.retention import RetentionLoop
from potluck.server.loops.schedule import ScheduleLoop
from potluck.server.loops.webhook_delivery import WebhookDeliveryLoop
from potluck.server.services import Services
from potluck.store.scheduler import leader
from potluck.store.scheduler.leader import Leadership

log = structlog.get_logger()

# So that who comes when the term runs out does not come just before.
_A_MOMENT_SECONDS = 0.02


class Loop(Protocol):
    """A duty, done again and again."""

    async def run_once(self) -> None: ...


class LeadLoop:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._duties: list[asyncio.Task[None]] = []
        self._term = 0  # that the duties are done in; an answer that told of a new one may be lost
        self._pause_seconds = services.settings.leader_renew_seconds

    async def run(self) -> None:
        """Until cancelled; then the duties end and the row is free for the next."""
        try:
            while True:
                await self._survive(self.run_once)
                await asyncio.sleep(self._pause_seconds)
        finally:
            await self._stop_duties()
            await self._survive(self._resign)

    async def run_once(self) -> None:
        self._pause_seconds = self._services.settings.leader_renew_seconds
        leadership = await self._lead()
        if leadership is None:
            if self._duties:
                log.warning("another instance leads; standing by", term=self._term)
            await self._stop_duties()
        elif leadership.term != self._term or not self._duties:
            await self._stop_duties()
            await self._start_duties(leadership)

    async def _lead(self) -> Leadership | None:
        """Who stands by comes again when the term may run out, and not a whole pause later.

        A connection that is dead without anybody having said so is not waited for: by then the term
        has run out.
        """
        services, seconds = self._services, self._services.settings.leader_seconds
        async with asyncio.timeout(seconds), services.database.kept_transaction() as connection:
            leadership = await leader.lead(connection, services.instance, seconds)
            if leadership is None:
                remaining = await leader.remaining_seconds(connection)
                self._pause_seconds = min(
                    self._pause_seconds, max(remaining, 0) + _A_MOMENT_SECONDS
                )
        return leadership

    async def _start_duties(self, leadership: Leadership) -> None:
        log.info("leading", term=leadership.term)
        self._term = leadership.term
        await begin_term(self._services, leadership)
        duties = self._loops(leadership)
        self._duties = [asyncio.create_task(self._repeat(loop.run_once)) for loop in duties]

    def _loops(self, leadership: Leadership) -> tuple[Loop, ...]:
        """What a leader does, each by itself."""
        memory = LeaderMemory(self._services)
        return (
            ScheduleLoop(self._services, leadership, memory),
            LeaderRpcLoop(self._services, memory),
            ExpireLoop(self._services, leadership),
            NotifyLoop(self._services),
            WebhookDeliveryLoop(self._services),
            RetentionLoop(self._services),
            GarbageLoop(self._services),
            InvariantCheckLoop(self._services, memory),
        )

    async def _repeat(self, run_once: Callable[[], Awaitable[None]]) -> None:
        while True:
            if not await self._survive(run_once):
                await asyncio.sleep(self._services.settings.leader_renew_seconds)

    async def _survive(self, duty: Callable[[], Awaitable[None]]) -> bool:
        """A duty that fails is logged and tried again: the database may be away for a while."""
        try:
            await duty()
        except (Unavailable, TimeoutError) as error:
            log.warning("duty waits for the database", duty=duty.__qualname__, detail=str(error))
            return False
        except Exception:
            log.exception("duty failed", duty=duty.__qualname__)
            return False
        return True

    async def _stop_duties(self) -> None:
        duties, self._duties = self._duties, []
        for duty in duties:
            duty.cancel()
        await asyncio.gather(*duties, return_exceptions=True)

    async def _resign(self) -> None:
        async with self._services.database.kept_transaction() as connection:
            await leader.resign(connection, self._services.instance)
