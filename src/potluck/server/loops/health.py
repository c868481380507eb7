"""Checks what this instance needs, every second: for `/readyz`, for the log, and for its clock.

Every instance runs it. `/readyz` returns the latest result, so that its callers, who need not be
signed in, cause no work. A change is logged when two checks in a row agree about it.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

import structlog
from msgspec import Struct

from potluck import __version__
from potluck.model.error import PotluckError, Unavailable
from potluck.server.database_clock import elapsed_seconds
from potluck.server.health import NOT_READY, OK, UNKNOWN, overall_status
from potluck.server.leader.scheduler_health import is_failing
from potluck.server.services import Services
from potluck.store import health, instances
from potluck.store.database import Connection
from potluck.store.schema import is_compatible, read_migrations
from potluck.wire.consumer import ServerReadiness

_ANSWER_SECONDS = 2.0
_SILENT = "does not answer"
# How often this instance tells the others that it is there.
_SEEN_SECONDS = 5.0

T = TypeVar("T")

log = structlog.get_logger()


class _Storage(Struct, frozen=True):
    blobs: str
    free_bytes: int | None = None  # None until it was measured


class _Check(Generic[T]):
    """Waits briefly for a check; one that hangs continues, and no second one is started.

    It is not cancelled: a connection that hangs would delay that for as long as PostgreSQL does not
    confirm it, and a thread cannot be cancelled.
    """

    def __init__(self, check: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._check = check
        self._running: asyncio.Task[T] | None = None

    async def run(self) -> T | None:
        """None if there is no result in time."""
        self._running = self._running or asyncio.create_task(self._check())
        await asyncio.wait({self._running}, timeout=_ANSWER_SECONDS)
        if not self._running.done():
            return None
        ended, self._running = self._running, None
        return ended.result()


class HealthLoop:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._schema_version = read_migrations()[-1].number
        self._previous: dict[str, str] = {}
        self._logged: dict[str, str] = {}
        self._database_check = _Check(self._read_database)
        self._storage = _Storage(OK)
        self._storage_check = _Check(self._read_storage)
        self._storage_due = 0.0
        self._seen_due = 0.0

    async def run(self) -> None:
        """Runs until cancelled; then this instance is no longer listed."""
        try:
            while True:
                await asyncio.sleep(self._services.settings.health_seconds)
                await self._run_guarded()
        finally:
            await self._record(lambda c: instances.leave(c, self._services.instance))

    async def _run_guarded(self) -> None:
        try:
            await self.run_once()
        except Exception:
            log.exception("health check failed")
            failed = {"database": "the health check failed; see the log"}
            self._services.health.latest = ServerReadiness(NOT_READY, __version__, failed)

    async def run_once(self) -> None:
        database, live, storage = await asyncio.gather(
            self._database_check.run(), self._check_live(), self._check_storage()
        )
        parts = {**self._database_parts(database), **self._storage_parts(storage), **live}
        skew_seconds = self._services.clock.skew_seconds
        is_skewed = abs(skew_seconds) > self._services.settings.clock_skew_seconds
        parts["clock"] = "differs from the database's" if is_skewed else OK
        self._services.health.free_bytes = storage.free_bytes
        self._services.health.latest = ServerReadiness(
            overall_status(parts),
            __version__,
            parts,
            instance=self._services.instance,
            leader=None if database is None else database.leader,
            free_gib=(storage.free_bytes or 0) // 2**30,
            clock_skew_seconds=round(skew_seconds, 1),
        )
        self._log_changes(parts)
        self._show(parts, storage)
        if database is not None:
            await self._mark_seen()

    async def _read_database(self) -> health.DatabaseHealth | None:
        """None if it does not answer. The time it tells sets this instance's clock."""
        try:
            async with (
                asyncio.timeout(_ANSWER_SECONDS),
                self._services.database.reserved_statement() as connection,
            ):
                asked_at = elapsed_seconds()
                database_health = await health.read(connection)
                answered_at = elapsed_seconds()
        except (Unavailable, TimeoutError):
            return None
        self._services.clock.adjust(asked_at, answered_at, database_health.read_at)
        return database_health

    async def _mark_seen(self) -> None:
        now = elapsed_seconds()
        if now >= self._seen_due:
            self._seen_due = now + _SEEN_SECONDS
            await self._record(
                lambda c: instances.mark_seen(c, self._services.instance, __version__)
            )

    async def _record(self, write: Callable[[Connection], Awaitable[None]]) -> None:
        """For display only: a database that cannot write now is still healthy for reading."""
        with suppress(Unavailable, TimeoutError):
            async with (
                asyncio.timeout(_ANSWER_SECONDS),
                self._services.database.reserved_statement() as connection,
            ):
                await write(connection)

    def _database_parts(self, database_health: health.DatabaseHealth | None) -> dict[str, str]:
        if database_health is None:
            return {"database": _SILENT, "migrations": UNKNOWN, "leader": UNKNOWN}
        theirs, ours = database_health.schema_version or "", self._schema_version
        is_usable = is_compatible(ours, theirs, database_health.compatible_since)
        return {
            "database": OK,
            "migrations": OK if is_usable else f"the schema is {theirs}; this server needs {ours}",
            "leader": OK if database_health.leader else "no instance leads, so no task starts",
        }

    async def _check_live(self) -> dict[str, str]:
        if not await self._services.live.ping():
            return {"live": _SILENT, "scheduler": UNKNOWN}
        fails = await is_failing(self._services)
        scheduler = "failing; see the log of the leading instance" if fails else OK
        return {"live": OK, "scheduler": scheduler}

    async def _check_storage(self) -> _Storage:
        now = asyncio.get_running_loop().time()
        if now < self._storage_due:
            return self._storage
        storage = await self._storage_check.run()
        if storage is None:
            return _Storage(_SILENT, self._storage.free_bytes)
        self._storage_due = now + self._services.settings.storage_check_seconds
        self._storage = storage
        return storage

    async def _read_storage(self) -> _Storage:
        directory = self._services.settings.data_directory
        free_bytes = await asyncio.to_thread(_free_bytes, directory)
        return _Storage(await _state(self._services.blobs.check()), free_bytes)

    def _storage_parts(self, storage: _Storage) -> dict[str, str]:
        least = self._services.settings.low_disk_bytes
        is_low = storage.free_bytes is not None and storage.free_bytes < least
        disk = "almost full" if is_low else OK
        is_full = self._services.database.is_disk_full
        return {"blobs": storage.blobs, "disk": "the database's disk is full" if is_full else disk}

    def _show(self, parts: dict[str, str], storage: _Storage) -> None:
        metrics = self._services.metrics
        metrics.show_parts({part: state == OK for part, state in parts.items()})
        metrics.clock_skew.set(self._services.clock.skew_seconds)
        if storage.free_bytes is not None:
            metrics.disk_free.set(storage.free_bytes)

    def _log_changes(self, parts: dict[str, str]) -> None:
        for part, state in parts.items():
            is_steady = self._previous.get(part) == state
            if not is_steady or self._logged.get(part, OK) == state:
                continue
            self._logged[part] = state
            latest = self._services.health.latest
            facts = {"free_gib": latest.free_gib, "clock_skew_seconds": latest.clock_skew_seconds}
            if state == OK:
                log.info("part recovered", part=part)
            else:
                log.warning("part failing", part=part, state=state, **facts)
        self._previous = parts


def _free_bytes(directory: Path) -> int:
    try:
        return shutil.disk_usage(directory).free
    except OSError:  # it is gone, and nothing can be written
        return 0


async def _state(check: Awaitable[None]) -> str:
    try:
        await check
    except PotluckError as error:
        return error.detail
    return OK
