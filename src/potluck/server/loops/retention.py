"""Clears away what has ended: nonces, approvals, sessions, invites, old events, and what the
suspended left.

Each is seen to by itself and completely: one that fails is logged and keeps no other waiting, and
however much has ended since the last time, nothing is left for the next.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeAlias

import structlog

from potluck.model.error import Unavailable
from potluck.server.accounts.first_admin import withdraw_invite
from potluck.server.accounts.roles import evict_once
from potluck.server.services import Services
from potluck.server.settings import ServerSettings
from potluck.store.database import Connection
from potluck.store.events import deliveries, event_list
from potluck.store.identity import nonces, sessions, terminal_approvals

log = structlog.get_logger()

_Forget: TypeAlias = Callable[[Connection, timedelta, int], Awaitable[int]]
# How long after its end something may still be asked for: clocks differ, and people look things up.
_KEPT: dict[_Forget, timedelta] = {
    nonces.forget: timedelta(hours=1),
    terminal_approvals.forget: timedelta(hours=1),
    sessions.forget: timedelta(days=30),
}
# So that no transaction is long.
_ROWS_AT_ONCE = 1_000


def _kept(settings: ServerSettings) -> dict[_Forget, timedelta]:
    """What the operator chose."""
    return {
        deliveries.forget: timedelta(seconds=settings.keep_deliveries_seconds),
        event_list.forget: timedelta(seconds=settings.keep_events_seconds),
    }


class RetentionLoop:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def run_once(self) -> None:
        for forget, kept in {**_KEPT, **_kept(self._services.settings)}.items():
            await _survive(forget.__module__, self._forget_all(forget, kept))
        for duty in (evict_once, withdraw_invite):
            await _survive(duty.__module__, duty(self._services))
        await asyncio.sleep(self._services.settings.tidy_seconds)

    async def _forget_all(self, forget: _Forget, kept: timedelta) -> None:
        gone = _ROWS_AT_ONCE
        while gone == _ROWS_AT_ONCE:
            async with self._services.database.transaction() as connection:
                gone = await forget(connection, kept, _ROWS_AT_ONCE)


async def _survive(what: str, tidying: Awaitable[None]) -> None:
    try:
        await tidying
    except Unavailable:  # for the others too; the leader waits and comes again
        raise
    except Exception:
        log.exception("tidying failed", what=what)
