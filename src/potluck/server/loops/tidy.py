"""Clears away what has ended: nonces, approvals, sessions, and what suspended accounts left."""

import asyncio
from datetime import timedelta

from potluck.server.accounts.standing import evict_once
from potluck.server.parts import Parts
from potluck.store import nonces, sessions, terminal_approvals

# How long after its end something may still be asked for: clocks differ, and people look things up.
_NONCES_KEPT = timedelta(hours=1)
_APPROVALS_KEPT = timedelta(hours=1)
_SESSIONS_KEPT = timedelta(days=30)


class TidyLoop:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run_once(self) -> None:
        await evict_once(self._parts)
        async with self._parts.database.transaction() as connection:
            await nonces.forget(connection, _NONCES_KEPT)
            await terminal_approvals.forget(connection, _APPROVALS_KEPT)
            await sessions.forget(connection, _SESSIONS_KEPT)
        await asyncio.sleep(self._parts.settings.tidy_seconds)
