"""Stores the errors that this instance logged, every few seconds, counted by kind and place.

So an error costs the request that it belongs to nothing more than its log line, and a flood of them
one statement every few seconds.
"""

import asyncio
from contextlib import suppress

from potluck.local.error_tally import ErrorTally, TalliedError
from potluck.model.bounded_types import replace_deceiving
from potluck.server.alerts.observe import instance_name
from potluck.server.services import Services
from potluck.store.alerts import error_log
from potluck.store.alerts.error_log import NewErrors

_LAST_SECONDS = 2.0  # for errors of the last moments; the database may be away


class ErrorLogLoop:
    def __init__(self, services: Services, errors: ErrorTally) -> None:
        self._services = services
        self._errors = errors

    async def run(self) -> None:
        """Until it is cancelled; then once more, for errors of the last moments."""
        try:
            while True:
                await asyncio.sleep(self._services.settings.error_log_seconds)
                await self.run_once()
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_SECONDS):
                    await self.run_once()

    async def run_once(self) -> None:
        errors = self._errors.collect()
        if not errors:
            return
        try:
            async with self._services.database.statement() as connection:
                name = instance_name(self._services.settings)
                await error_log.add(connection, name, [_storable(error) for error in errors])
        except Exception:  # noqa: BLE001 - logging it would make the next error
            self._errors.give_back(errors)


def _storable(error: TalliedError) -> NewErrors:
    """PostgreSQL cannot store NUL, nor a lone surrogate."""
    lines = error.trace.encode("utf-8", "replace").decode().replace("\0", "?")
    kind, place, message = (
        replace_deceiving(text, "?") for text in (error.kind, error.place, error.message)
    )
    return NewErrors(error.fingerprint, kind, place, message, lines, error.occurrences)
