"""Leads or stands by: renews the leader's row, and runs the duties while it holds it.

An instance that loses the row stops its duties; their pending writes name an old term and have no
effect.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from potluck.model.error import Unavailable
from potluck.server.flow.housekeeping.expire import begin_term
from potluck.server.leader.findings import LeaderFindings
from potluck.server.leader.memory import LeaderMemory
from potluck.server.leader.planner import PlannerThread
from potluck.server.loops.alerts import AlertLoop
from potluck.server.loops.epochs import EpochLoop
from potluck.server.loops.expire import ExpireLoop
from potluck.server.loops.garbage import GarbageLoop
from potluck.server.loops.invariant_check import InvariantCheckLoop
from potluck.server.loops.leader_rpc import LeaderRpcLoop
from potluck.server.loops.outbox import OutboxLoop
from potluck.server.loops.payout import PayoutLoop
from potluck.server.loops.pool_figures import PoolFiguresLoop
from potluck.server.loops.retention import RetentionLoop
from potluck.server.loops.schedule import ScheduleLoop
from potluck.server.loops.settle import SettleLoop
from potluck.server.loops.webhook_delivery import WebhookDeliveryLoop
from potluck.server.services import Services
from potluck.store.scheduler import leader
from potluck.store.scheduler.leader import Leadership

log = structlog.get_logger()

# A margin, so that a standby does not try just before the term ends.
_MARGIN_SECONDS = 0.02


class Loop(Protocol):
    """A duty that is run repeatedly."""

    async def run_once(self) -> None: ...


class LeadershipLoop:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._duties: list[asyncio.Task[None]] = []
        self._term = 0  # of the running duties; the answer that announced a new term may be lost
        self._renewed_at = 0.0  # by the monotonic clock: when the term was last begun or renewed
        self._pause_seconds = services.settings.leader_renew_seconds
        self._waiting: dict[str, str] = {}  # duties that wait for the database, and why

    async def run(self) -> None:
        """Runs until cancelled; then stops the duties and releases the row."""
        try:
            while True:
                await self._run_guarded(self.run_once)
                await asyncio.sleep(self._pause_seconds)
        finally:
            await self._stop_duties()
            await self._run_guarded(self._resign)

    async def run_once(self) -> None:
        self._pause_seconds = self._services.settings.leader_renew_seconds
        asked_at = time.monotonic()
        try:
            leadership = await self._lead()
        except Exception:
            self._check_term_end()
            raise
        if leadership is None:
            if self._duties:
                log.warning("another instance leads; standing by", term=self._term)
            await self._stop_duties()
        elif leadership.term != self._term or not self._duties:
            await self._stop_duties()
            self._renewed_at = asked_at
            await self._start_duties(leadership)
        else:
            self._renewed_at = asked_at
            self._services.metrics.lead(leadership.term)

    def _check_term_end(self) -> None:
        """The duties go on, as the term may be renewed when the database is back."""
        if time.monotonic() - self._renewed_at >= self._services.settings.leader_seconds:
            self._services.metrics.stand_by()

    async def _lead(self) -> Leadership | None:
        """A standby tries again when the term may end, instead of a full pause later.

        The timeout covers a dead connection: by then the term has ended.
        """
        services, seconds = self._services, self._services.settings.leader_seconds
        async with asyncio.timeout(seconds), services.database.reserved_transaction() as connection:
            leadership = await leader.acquire_or_renew(connection, services.instance, seconds)
            if leadership is None:
                remaining = await leader.remaining_seconds(connection)
                self._pause_seconds = min(self._pause_seconds, max(remaining, 0) + _MARGIN_SECONDS)
        return leadership

    async def _start_duties(self, leadership: Leadership) -> None:
        log.info("leading", term=leadership.term)
        self._term = leadership.term
        self._services.metrics.lead(leadership.term)
        await begin_term(self._services, leadership)
        duties = self._loops(leadership)
        self._duties = [asyncio.create_task(self._repeat(loop.run_once)) for loop in duties]

    def _loops(self, leadership: Leadership) -> tuple[Loop, ...]:
        memory = LeaderMemory(self._services, planner=PlannerThread())
        findings = LeaderFindings()
        return (
            ScheduleLoop(self._services, leadership, memory, findings),
            LeaderRpcLoop(self._services, memory),
            ExpireLoop(self._services, leadership),
            SettleLoop(self._services, leadership),
            EpochLoop(self._services, leadership),
            OutboxLoop(self._services),
            WebhookDeliveryLoop(self._services),
            RetentionLoop(self._services),
            GarbageLoop(self._services),
            InvariantCheckLoop(self._services, memory, findings),
            AlertLoop(self._services, leadership, memory, findings),
            *([PayoutLoop(self._services, leadership)] if self._services.chain else []),
            *([PoolFiguresLoop(self._services, memory)] if self._services.settings.metrics else []),
        )

    async def _repeat(self, run_once: Callable[[], Awaitable[None]]) -> None:
        while True:
            if not await self._run_guarded(run_once):
                await asyncio.sleep(self._services.settings.leader_renew_seconds)

    async def _run_guarded(self, duty: Callable[[], Awaitable[None]]) -> bool:
        """Logs a failing duty, which is run again: the database may be unavailable for a while.

        What it waits for is logged once: the log may be on the disk that is full.
        """
        name = duty.__qualname__
        try:
            await duty()
        except (Unavailable, TimeoutError) as error:
            if self._waiting.get(name) != str(error):
                self._waiting[name] = str(error)
                log.warning("duty waits for the database", duty=name, detail=str(error))
            return False
        except Exception:
            log.exception("duty failed", duty=name)
            return False
        self._waiting.pop(name, None)
        return True

    async def _stop_duties(self) -> None:
        duties, self._duties = self._duties, []
        for duty in duties:
            duty.cancel()
        await asyncio.gather(*duties, return_exceptions=True)
        self._services.metrics.stand_by()

    async def _resign(self) -> None:
        async with self._services.database.reserved_transaction() as connection:
            await leader.resign(connection, self._services.instance)
