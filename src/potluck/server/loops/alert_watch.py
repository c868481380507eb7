"""What every instance does for alerts: it tells about itself, and watches for a leader.

The leader evaluates all alerts. While there is none, any instance evaluates NoLeader; the database
makes sure that it is told once. While the database itself is away, or cannot write because its disk
is full, each instance counts alone: the message about it is sent directly, and `live` makes sure
that one instance sends it. When the database is back the outage is recorded, so that the next
leader tells its end.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import structlog
from msgspec.structs import replace

from potluck.decide.alerts.conditions import POOL, Condition, database_disk_full, no_leader
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

_OUTAGES = (AlertName.NO_LEADER, AlertName.DISK_LOW)


class AlertWatchLoop:
    def __init__(self, services: Services, tls: Tls | None) -> None:
        self._services = services
        self._tls = tls
        self._trouble: tuple[AlertName, datetime] | None = None  # of the database, and since when
        self._outages: dict[AlertName, Alert] = {}  # of the database, that lasted long enough
        self._silences: list[Silence] = []  # as they were last read
        self._latest_id = 0  # of an alert about the pool, as it was last read

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
        condition = self._find_outage()
        if condition is None:
            self._trouble = None
        else:
            await self._note_outage(condition)

    async def tell_once(self) -> None:
        if self._is_database_away:
            return
        if self._find_outage() is None:
            await self._record_outages()
        await self._tell_reading()
        if self._services.health.latest.parts.get("leader") != OK:
            condition = no_leader(is_database_away=False)
            await evaluate(self._services, [condition], {AlertName.NO_LEADER})

    def _find_outage(self) -> Condition | None:
        """What is wrong with the database, so that alerts about it cannot be stored there."""
        if self._is_database_away:
            return no_leader(is_database_away=True)
        return database_disk_full() if self._services.database.is_disk_full else None

    @property
    def _is_database_away(self) -> bool:
        return self._services.health.latest.parts.get("database") != OK

    async def _tell_reading(self) -> None:
        reading = read_instance(self._services, self._tls)
        async with self._services.database.transaction() as connection:
            await observations.put_reading(connection, reading)
            self._silences = alerts.as_silences(await alerts.list_silences(connection))
            self._latest_id = await alerts.latest_id(connection, _OUTAGES, POOL)

    async def _note_outage(self, condition: Condition) -> None:
        now, settings, name = self._services.clock.now(), self._services.settings, condition.name
        if self._trouble is None or self._trouble[0] is not name:
            self._trouble = name, now
        since = self._trouble[1]
        if now - since < timedelta(seconds=hold_seconds(name, settings.alert_for_seconds)):
            return
        new = Alert(name, condition.subject, AlertState.FIRING, condition.detail, since, now)
        outage = self._outages.setdefault(name, new)
        is_repeated = outage.notified_at is not None
        if not is_silenced(outage, self._silences, now) and await self._may_tell(name):
            # Also if it was recorded meanwhile: it is recorded again, so that its end is told.
            outage = self._outages[name] = replace(outage, notified_at=now)
            await self._send(outage, MessageKind.REPEATED if is_repeated else MessageKind.FIRING)

    async def _may_tell(self, name: AlertName) -> bool:
        """One of all instances, as often as an alert is repeated; each for itself without Redis.

        Each outage is recorded, so the next one is counted by another key.
        """
        per_second = 1 / self._services.settings.alert_repeat_seconds
        key = topics.outage(name, self._latest_id)
        return await self._services.live.take(key, per_second, 1) == 0

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

    async def _record_outages(self) -> None:
        for name, outage in list(self._outages.items()):
            async with self._services.database.transaction() as connection:
                await alerts.lock(connection)
                await alerts.record_outage(connection, outage)
            if self._outages[name] is outage:  # not told meanwhile
                del self._outages[name]
