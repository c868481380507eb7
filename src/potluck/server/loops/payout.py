"""Follows the chain: deposits are credited, claims recorded, and rewards paid."""

import asyncio

from potluck.server.flow.payout.payout import follow_chain
from potluck.server.services import Services
from potluck.store.scheduler.leader import Leadership


class PayoutLoop:
    def __init__(self, services: Services, leadership: Leadership) -> None:
        self._services = services
        self._leadership = leadership

    async def run_once(self) -> None:
        await follow_chain(self._services, self._leadership)
        await asyncio.sleep(self._services.settings.rewards_poll_seconds)
