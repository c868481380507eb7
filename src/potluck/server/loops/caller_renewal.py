"""Keeps the callers behind node keys true, all of them with one statement.

Nodes call every few seconds, later than what an instance has read may be used. In a large pool each
call would begin with a statement of its own. Every instance runs this loop.
"""

import asyncio
from collections.abc import Collection, Hashable, Mapping

import structlog

from potluck.model.error import PotluckError
from potluck.server.services import Services
from potluck.store.identity import node_keys
from potluck.store.identity.node_keys import NodeCaller

# Of the time for which a caller may be kept; the rest is for the statement.
_SHARE_OF_TIME = 0.7
# A node that has not called for this time may be gone.
_UNUSED_SECONDS = 60.0
# For fewer it is not worth it.
_LEAST_CALLERS = 50

log = structlog.get_logger()


class CallerRenewalLoop:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def run(self) -> None:
        seconds = _SHARE_OF_TIME * self._services.settings.caller_cache_seconds
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.run_once()
            except PotluckError as error:
                # They are read again one by one, when their time is over.
                log.info("cannot renew the callers", error=error.code)

    async def run_once(self) -> None:
        callers = self._services.caches.node_callers
        if len(callers) >= _LEAST_CALLERS:
            await callers.renew(_UNUSED_SECONDS, self._find_changed)

    async def _find_changed(
        self, kept: Mapping[Hashable, NodeCaller | None]
    ) -> Collection[Hashable]:
        callers = {str(key_id): caller for key_id, caller in kept.items() if caller is not None}
        async with self._services.database.statement() as connection:
            return await node_keys.changed_callers(connection, callers)
