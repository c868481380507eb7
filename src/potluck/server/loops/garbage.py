"""Removes unused data: files, results and logs of old tasks, and abandoned uploads.

A failing step is logged and does not block the others.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog

from potluck.model.error import Unavailable
from potluck.server.flow.housekeeping import garbage
from potluck.server.flow.submit import volumes
from potluck.server.services import Services

log = structlog.get_logger()

_STEPS: tuple[Callable[[Services], Awaitable[None]], ...] = (
    garbage.clear_tasks,
    garbage.drop_idle_uploads,
    volumes.expire,
    garbage.release_unused_claims,
    garbage.remove_marked,
)


class GarbageLoop:
    def __init__(self, services: Services) -> None:
        self._services = services
        # A new leader has more urgent work.
        self._sweep_at = time.monotonic() + services.settings.collect_wait_seconds

    async def run_once(self) -> None:
        for step in _STEPS:
            await self._run_step(step)
        if time.monotonic() >= self._sweep_at:
            await self._run_step(garbage.sweep_orphans)
            self._sweep_at = time.monotonic() + self._services.settings.sweep_objects_seconds
        await asyncio.sleep(self._services.settings.collect_seconds)

    async def _run_step(self, step: Callable[[Services], Awaitable[None]]) -> None:
        try:
            await step(self._services)
        except Unavailable:  # affects all steps; the leader retries
            raise
        except Exception:
            log.exception("garbage collection step failed", what=step.__name__)
