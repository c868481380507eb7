"""Rounds: at once when something changed, and every few seconds in any case.

A new leader loads the head of each queue, and places that; the rest is loaded behind, and then what
accounts used before it led. Once a minute everything is compared with the database. Rounds, loading
and comparing take turns, slice by slice, so that none of them sees another's half-done work.
"""

import asyncio

import structlog

from potluck.model.error import Unavailable
from potluck.server import topics
from potluck.server.flow.schedule.dependents import resolve_dependencies_once
from potluck.server.flow.schedule.schedule import schedule_once
from potluck.server.leader.memory import LeaderMemory
from potluck.server.leader.memory_audit import MemoryAudit
from potluck.server.leader.scheduler_health import SchedulerHealth
from potluck.server.leader.usage_backfill import UsageBackfill
from potluck.server.leader.waiting_reasons import WaitingReasons
from potluck.server.services import Services
from potluck.store.scheduler.leader import Leadership, TermOver

log = structlog.get_logger()

# How long the loading goes on between two rounds, and how long a comparison rests between slices.
_LOAD_SECONDS = 0.2
_REST_SECONDS = 0.02


class ScheduleLoop:
    def __init__(self, services: Services, leadership: Leadership, memory: LeaderMemory) -> None:
        self._services = services
        self._leadership = leadership
        self._memory = memory
        self._reasons = WaitingReasons(services, memory.known.scheduler)
        self._trouble = SchedulerHealth(services)
        self._clock = asyncio.get_running_loop()
        self._began_at = self._clock.time()
        self._has_more_to_tell = False
        self._recall: UsageBackfill | None = None
        self._sweep: MemoryAudit | None = None
        self._sweep_at = self._clock.time() + services.settings.sweep_seconds

    async def run_once(self) -> None:
        """A database that is away is waited for; all else that is raised is trouble."""
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
            self._recall = UsageBackfill(self._services, self._memory)
        async with self._services.live.listen(topics.SCHEDULE) as listener:
            is_placed = await self._round()
            if not self._memory.is_loaded:
                await self._memory.load_more(_LOAD_SECONDS)
                self._say_if_loaded()
                return
            await self._remember()
            if is_placed:
                await self._compare()
                await listener.wait(self._rest_seconds())

    async def _round(self) -> bool:
        try:
            done = await schedule_once(self._services, self._leadership, self._memory)
            were_decided = await self._decide()
        except TermOver:  # the renewal will find out, too, and end this loop
            await asyncio.sleep(self._services.settings.leader_renew_seconds)
            return False
        await self._reasons.publish(done.waiting, done.emptied)
        self._has_more_to_tell = not done.is_complete
        return done.is_placed and not were_decided

    async def _decide(self) -> bool:
        """What comes after others, if one of those has ended. What is let go is placed at once."""
        if not self._memory.has_decided:
            return False
        return bool(await resolve_dependencies_once(self._services, self._leadership))

    def _say_if_loaded(self) -> None:
        if self._memory.is_loaded:
            waiting = self._memory.known.scheduler.waiting_count
            seconds = round(self._clock.time() - self._began_at, 3)
            log.info("the whole queue is loaded", waiting=waiting, seconds=seconds)

    async def _remember(self) -> None:
        """A slice of what was used before, also while there is more to place: that goes by it."""
        if self._recall is not None:
            await self._recall.run_once()
            if self._recall.is_over:
                self._recall = None

    async def _compare(self) -> None:
        """A slice, when it is time."""
        if self._sweep is None and self._clock.time() >= self._sweep_at:
            self._sweep = MemoryAudit(self._services, self._memory)
            self._sweep_at = self._clock.time() + self._services.settings.sweep_seconds
        if self._sweep is not None:
            await self._sweep.run_once()
            if self._sweep.is_over:
                self._sweep = None

    def _rest_seconds(self) -> float:
        """Until there is something to do, unless something changes before."""
        has_more_to_read = self._recall is not None or self._sweep is not None
        if has_more_to_read or self._reasons.is_behind or self._has_more_to_tell:
            return _REST_SECONDS
        rest = min(
            self._services.settings.schedule_poll_seconds, self._sweep_at - self._clock.time()
        )
        due = self._memory.known.next_due
        return max(0.0, rest if due is None else min(rest, due - self._memory.now))
