"""Charges attempts that run long, and resolves rewards that were held back."""

import asyncio

from potluck.server.flow.settle.slices import judge_failures, resolve_lost, settle_slices
from potluck.server.services import Services
from potluck.store.scheduler.leader import Leadership


class SettleLoop:
    def __init__(self, services: Services, leadership: Leadership) -> None:
        self._services = services
        self._leadership = leadership

    async def run_once(self) -> None:
        await settle_slices(self._services, self._leadership)
        await resolve_lost(self._services, self._leadership)
        await judge_failures(self._services, self._leadership)
        await asyncio.sleep(self._services.settings.settle_poll_seconds)
