"""Looks for what ran out of time."""

import asyncio

from potluck.server.flow.housekeeping.expire import expire_once
from potluck.server.services import Parts
from potluck.store.scheduler.leader import Leadership


class ExpireLoop:
    def __init__(self, parts: Parts, leadership: Leadership) -> None:
        self._parts = parts
        self._leadership = leadership

    async def run_once(self) -> None:
        await expire_once(self._parts, self._leadership)
        await asyncio.sleep(self._parts.settings.expire_poll_seconds)
