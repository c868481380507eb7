"""Looks for what ran out of time."""

import asyncio

from potluck.server.flow.expire import expire_once
from potluck.server.parts import Parts


class ExpireLoop:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run_once(self) -> None:
        await expire_once(self._parts)
        await asyncio.sleep(self._parts.settings.expire_poll_seconds)
