"""Closes epochs that are over."""

import asyncio

from potluck.server.flow.settle.epochs import close_epoch
from potluck.server.services import Services
from potluck.store.scheduler.leader import Leadership


class EpochLoop:
    def __init__(self, services: Services, leadership: Leadership) -> None:
        self._services = services
        self._leadership = leadership

    async def run_once(self) -> None:
        await close_epoch(self._services, self._leadership)
        await asyncio.sleep(self._services.settings.epoch_poll_seconds)
