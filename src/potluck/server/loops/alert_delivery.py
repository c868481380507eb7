"""Sends messages about alerts, on every instance: when woken, and at intervals."""

import asyncio

import structlog

from potluck.model.error import Unavailable
from potluck.server import topics
from potluck.server.alerts.delivery import deliver_once
from potluck.server.services import Services

log = structlog.get_logger()


class AlertDeliveryLoop:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def run(self) -> None:
        while True:
            try:
                await self.run_once()
            except (Unavailable, TimeoutError):  # what is stored is sent later
                await asyncio.sleep(self._services.settings.alert_seconds)
            except Exception:
                log.exception("messages about alerts could not be sent")
                await asyncio.sleep(self._services.settings.alert_seconds)

    async def run_once(self) -> None:
        async with self._services.live.listen(topics.ALERTS) as listener:
            while await deliver_once(self._services):
                pass
            await listener.wait(self._services.settings.alert_seconds)
