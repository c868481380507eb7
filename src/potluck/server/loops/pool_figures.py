"""Collects the pool-wide figures for metrics at an interval, so that a scrape reads nothing."""

import asyncio

from potluck.server.leader.memory import LeaderMemory
from potluck.server.leader.pool_figures import pool_gauges
from potluck.server.services import Services
from potluck.store import pool_figures


class PoolFiguresLoop:
    def __init__(self, services: Services, memory: LeaderMemory) -> None:
        self._services = services
        self._memory = memory
        self._ledger_id: int | None = None  # of the last entry that was counted

    async def run_once(self) -> None:
        await self.collect()
        await asyncio.sleep(self._services.settings.metrics_seconds)

    async def collect(self) -> None:
        async with self._services.database.statement() as connection:
            figures = await pool_figures.read_figures(connection)
        queue = await self._memory.planner(self._memory.known.scheduler.queue_depth)
        gauges = pool_gauges(figures, queue, self._memory.now)
        self._services.metrics.pool.replace(gauges)
        await self._count_ledger()

    async def _count_ledger(self) -> None:
        """Counts from the start of this term; what was before, the leader before has counted."""
        is_all = False
        while not is_all:
            async with self._services.database.statement() as connection:
                if self._ledger_id is None:
                    self._ledger_id = await pool_figures.find_ledger_end(connection)
                moved = await pool_figures.read_moved(connection, self._ledger_id)
            self._ledger_id, is_all = moved.last_id, moved.is_all
            self._services.metrics.count_moved(moved.moved_micro)
