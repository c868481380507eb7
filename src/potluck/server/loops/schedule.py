"""Scheduling rounds: when something changed, and every few seconds.

A new leader loads the head of each queue and places that; then it loads the rest, and the usage
before its term. Once a minute its memory is compared with the database. Rounds, loading and
comparing alternate in slices, so that none sees another's partial work.
"""

import asyncio
from functools import partial

import structlog

from potluck.model.error import Unavailable
from potluck.server import topics
from potluck.server.flow.schedule.dependents import resolve_dependencies_once
from potluck.server.flow.schedule.release import release_once
from potluck.server.flow.schedule.schedule import schedule_once
from potluck.server.leader.findings import LeaderFindings
from potluck.server.leader.memory import LeaderMemory
from potluck.server.leader.memory_audit import MemoryAudit
from potluck.server.leader.scheduler_health import SchedulerHealth
from potluck.server.leader.usage_backfill import UsageBackfill
from potluck.server.leader.waiting_reasons import WaitingReasons
from potluck.server.services import Services
from potluck.store.scheduler.leader import Leadership, TermOver

log = structlog.get_logger()

# Time for loading between rounds, and the pause between slices of an audit.
_LOAD_SECONDS = 0.2
_REST_SECONDS = 0.02
# For which devices are taken back from call streams in one round.
_WANTED_GROUPS = 8


class ScheduleLoop:
    def __init__(
        self,
        services: Services,
        leadership: Leadership,
        memory: LeaderMemory,
        findings: LeaderFindings | None = None,
    ) -> None:
        self._services = services
        self._findings = findings or LeaderFindings()
        self._leadership = leadership
        self._memory = memory
        self._reasons = WaitingReasons(services, memory.known.scheduler)
        self._trouble = SchedulerHealth(services)
        self._clock = asyncio.get_running_loop()
        self._began_at = self._clock.time()
        self._has_more_reasons = False
        self._release_in: float | None = None  # when a call stream's turn may be over
        self._backfill: UsageBackfill | None = None
        self._audit: MemoryAudit | None = None
        self._audit_at = self._clock.time() + services.settings.sweep_seconds

    async def run_once(self) -> None:
        """Waits for an unavailable database; any other error marks the scheduler as failing."""
        try:
            await self._run_once()
        except (Unavailable, TimeoutError):
            raise
        except Exception:
            await self._trouble.begin()
            raise
        await self._trouble.end()

    async def _run_once(self) -> None:
        if not self._memory.has_begun:
            await self._memory.begin()
            self._backfill = UsageBackfill(self._services, self._memory)
        async with self._services.live.listen(topics.SCHEDULE) as listener:
            is_placed = await self._round()
            if not self._memory.is_loaded:
                await self._memory.load_more(_LOAD_SECONDS)
                self._log_if_loaded()
                return
            await self._backfill_usage()
            if is_placed:
                await self._compare()
                await listener.wait(self._rest_seconds())

    async def _round(self) -> bool:
        try:
            result = await schedule_once(self._services, self._leadership, self._memory)
            were_decided = await self._decide()
        except TermOver:  # the renewal will notice too, and end this loop
            await asyncio.sleep(self._services.settings.leader_renew_seconds)
            return False
        self._findings.note_round()
        known, planner = self._memory.known, self._memory.planner
        wanted = await planner(partial(known.scheduler.wanted_nodes, _WANTED_GROUPS))
        self._release_in = await release_once(self._services, wanted)
        await self._reasons.publish(result.waiting, result.emptied)
        self._has_more_reasons = not result.is_complete
        return result.is_placed and not were_decided

    async def _decide(self) -> bool:
        """Resolves dependencies that have ended. Released tasks are placed in the next round."""
        if not self._memory.has_decided:
            return False
        return bool(await resolve_dependencies_once(self._services, self._leadership))

    def _log_if_loaded(self) -> None:
        if self._memory.is_loaded:
            waiting = self._memory.known.scheduler.waiting_count
            seconds = round(self._clock.time() - self._began_at, 3)
            log.info("the whole queue is loaded", waiting=waiting, seconds=seconds)

    async def _backfill_usage(self) -> None:
        """Reads a slice even while there is more to place: placement depends on usage."""
        if self._backfill is not None:
            await self._backfill.run_once()
            if self._backfill.is_over:
                self._backfill = None

    async def _compare(self) -> None:
        """Audits a slice, when it is time."""
        if self._audit is None and self._clock.time() >= self._audit_at:
            self._audit = MemoryAudit(self._services, self._memory)
            self._audit_at = self._clock.time() + self._services.settings.sweep_seconds
        if self._audit is not None:
            await self._audit.run_once()
            if self._audit.is_over:
                self._findings.note_differences(self._audit.differences)
                self._audit = None

    def _rest_seconds(self) -> float:
        """Until there is work, unless something changes before."""
        has_more_to_read = self._backfill is not None or self._audit is not None
        if has_more_to_read or self._reasons.is_behind or self._has_more_reasons:
            return _REST_SECONDS
        rest = min(
            self._services.settings.schedule_poll_seconds, self._audit_at - self._clock.time()
        )
        rest = rest if self._release_in is None else min(rest, self._release_in)
        due = self._memory.known.next_due
        return max(0.0, rest if due is None else min(rest, due - self._memory.now))
