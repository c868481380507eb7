"""What every instance does for alerts: it tells about itself, and watches for a leader.

The leader evaluates all alerts. While there is none, any instance evaluates NoLeader; the database
makes sure that it is told once. While the database itself is away, each instance counts alone:
the message about it is sent directly, and `live` makes sure that one instance sends it. When the
database is back the outage is recorded, so that the next leader tells its end.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import structlog
from msgspec.structs import replace

from potluck.decide.alerts.conditions import no_leader
from potluck.decide.alerts.messages import MessageKind, Silence, compose_one, is_silenced
from potluck.decide.alerts.transitions import Alert, hold_seconds
from potluck.model.alert import AlertName, AlertState
from potluck.model.error import Unavailable
from potluck.server import topics
from potluck.server.alerts.evaluate import evaluate, runbook_url
from potluck.server.alerts.observe import read_instance
from potluck.server.health import OK
from potluck.server.http.tls import Tls
from potluck.server.services import Services
from potluck.store.alerts import alerts, observations

log = structlog.get_logger()


class AlertWatchLoop:
    def __init__(self, services: Services, tls: Tls | None) -> None:
        self._services = services
        self._tls = tls
        self._away_since: datetime | None = None  # the database
        self._outage: Alert | None = None  # once it has lasted long enough
        self._silences: list[Silence] = []  # as they were last read
        self._latest_id = 0  # of the alert NoLeader, as it was last read

    async def run(self) -> None:
        """Watches in a task of its own: what writes to the database may hang with it."""
        await asyncio.gather(self._repeat(self.watch_once), self._repeat(self.tell_once))

    async def _repeat(self, run_once: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await run_once()
            except (Unavailable, TimeoutError):  # the next check of the health tells
                pass
            except Exception:
                log.exception("alerts could not be watched")
            await asyncio.sleep(self._services.settings.alert_seconds)

    async def watch_once(self) -> None:
        """Without the database."""
        if self._is_database_away:
            await self._note_outage()
        else:
            self._away_since = None

    async def tell_once(self) -> None:
        if self._is_database_away:
            return
        await self._record_outage()
        await self._tell_reading()
        if self._services.health.latest.parts.get("leader") != OK:
            condition = no_leader(is_database_away=False)
            await evaluate(self._services, [condition], {AlertName.NO_LEADER})

    @property
    def _is_database_away(self) -> bool:
        return self._services.health.latest.parts.get("database") != OK

    async def _tell_reading(self) -> None:
        reading = read_instance(self._services, self._tls)
        async with self._services.database.transaction() as connection:
            await observations.put_reading(connection, reading)
            self._silences = alerts.as_silences(await alerts.list_silences(connection))
            self._latest_id = await alerts.latest_id(connection, AlertName.NO_LEADER)

    async def _note_outage(self) -> None:
        now, settings = self._services.clock.now(), self._services.settings
        self._away_since = self._away_since or now
        hold = hold_seconds(AlertName.NO_LEADER, settings.alert_for_seconds)
        if now - self._away_since < timedelta(seconds=hold):
            return
        outage = self._outage = self._outage or self._new_outage(self._away_since, now)
        is_repeated = outage.notified_at is not None
        if not is_silenced(outage, self._silences, now) and await self._may_tell():
            # Also if it was recorded meanwhile: it is recorded again, so that its end is told.
            outage = self._outage = replace(outage, notified_at=now)
            await self._send(outage, MessageKind.REPEATED if is_repeated else MessageKind.FIRING)

    def _new_outage(self, since: datetime, now: datetime) -> Alert:
        condition = no_leader(is_database_away=True)
        return Alert(
            *(condition.name, condition.subject, AlertState.FIRING, condition.detail, since, now)
        )

    async def _may_tell(self) -> bool:
        """One of all instances, as often as an alert is repeated; each for itself without Redis.

        Each outage is recorded, so the next one is counted by another key.
        """
        per_second = 1 / self._services.settings.alert_repeat_seconds
        return await self._services.live.take(topics.outage(self._latest_id), per_second, 1) == 0

    async def _send(self, outage: Alert, kind: MessageKind) -> None:
        message = compose_one(outage, kind, runbook_url(self._services))
        log.warning("alert fires", alert=message.name, detail=outage.detail)
        results = await self._services.alert_destinations.send_to_all(
            message.title, message.body, False, self._services.settings.alert_send_seconds
        )
        for result in results:
            if result.problem:
                log.warning(
                    "an alert could not be sent",
                    destination=result.destination.label,
                    problem=result.problem,
                )

    async def _record_outage(self) -> None:
        outage = self._outage
        if outage is None:
            return
        async with self._services.database.transaction() as connection:
            await alerts.lock(connection)
            await alerts.record_outage(connection, outage)
        if self._outage is outage:  # not told meanwhile
            self._outage = None
