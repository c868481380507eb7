"""Deletes expired rows: nonces, approvals, sessions, invites, old events, old backups' records, and
the leftovers of suspended accounts. Closes call streams that get no more calls.

Each kind is processed completely and by itself: a failing one is logged and does not block the
others.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeAlias

import structlog

from potluck.model.error import Unavailable
from potluck.server.accounts.first_admin import withdraw_invite
from potluck.server.accounts.roles import evict_once
from potluck.server.flow.housekeeping.close_streams import close_streams_once
from potluck.server.services import Services
from potluck.server.settings import ServerSettings
from potluck.store import backups, instances
from potluck.store.alerts import alert_messages, alerts, error_log, observations
from potluck.store.database import Connection
from potluck.store.events import deliveries, event_list
from potluck.store.identity import nonces, sessions, terminal_approvals

log = structlog.get_logger()

_Forget: TypeAlias = Callable[[Connection, timedelta, int], Awaitable[int]]
# Grace period after the end: clocks differ, and users look things up.
_KEPT: dict[_Forget, timedelta] = {
    nonces.delete_expired: timedelta(hours=1),
    terminal_approvals.delete_expired: timedelta(hours=1),
    sessions.delete_expired: timedelta(days=30),
    backups.delete_old: timedelta(days=400),
    instances.delete_old: timedelta(hours=1),
    alert_messages.delete_old: timedelta(days=7),
    observations.delete_old_readings: timedelta(hours=1),
    observations.delete_old_terms: timedelta(days=7),
    error_log.delete_old: timedelta(days=30),
}
# Keeps transactions short.
_BATCH = 1_000


def _retention_times(settings: ServerSettings) -> dict[_Forget, timedelta]:
    """The retention times that the operator chose."""
    return {
        deliveries.delete_old: timedelta(seconds=settings.keep_deliveries_seconds),
        event_list.delete_old: timedelta(seconds=settings.keep_events_seconds),
        alerts.delete_old: timedelta(seconds=settings.keep_alerts_seconds),
    }


class RetentionLoop:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def run_once(self) -> None:
        for forget, retention in {**_KEPT, **_retention_times(self._services.settings)}.items():
            await _run_step(forget.__module__, self._forget_all(forget, retention))
        for duty in (evict_once, withdraw_invite, close_streams_once):
            await _run_step(duty.__module__, duty(self._services))
        await asyncio.sleep(self._services.settings.tidy_seconds)

    async def _forget_all(self, forget: _Forget, retention: timedelta) -> None:
        gone = _BATCH
        while gone == _BATCH:
            async with self._services.database.transaction() as connection:
                gone = await forget(connection, retention, _BATCH)


async def _run_step(what: str, step: Awaitable[None]) -> None:
    try:
        await step
    except Unavailable:  # affects all kinds; the leader retries
        raise
    except Exception:
        log.exception("retention step failed", what=what)
