"""Expires leases, assignments and deadlines."""

import asyncio

from potluck.server.flow.housekeeping.expire import expire_once
from potluck.server.services import Services
from potluck.store.scheduler.leader import Leadership


class ExpireLoop:
    def __init__(self, services: Services, leadership: Leadership) -> None:
        self._services = services
        self._leadership = leadership

    async def run_once(self) -> None:
        await expire_once(self._services, self._leadership)
        await asyncio.sleep(self._services.settings.expire_poll_seconds)
