"""Announces a running backup in the database, so that no blob is removed meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime

from potluck.model.error import Unavailable
from potluck.store import backups
from potluck.store.backups import GUARD
from potluck.store.connector import DatabaseConnector
from potluck.store.database import NOT_NOW, Connection, unavailable


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Connection]:
    """Not of a pool: reading a large table may take longer than a request may."""
    connector = DatabaseConnector(url)
    try:
        # No statement is kept under a name: a pooler may give the next one to another session.
        connection = await connector.connect(
            statement_cache_size=0, server_settings={"application_name": "potluck backup"}
        )
        try:
            yield connection
        finally:
            await connection.close()
    except NOT_NOW as error:
        raise unavailable() from error


class Announcement:
    def __init__(self, url: str, backup_id: str, started_at: datetime) -> None:
        self._url = url
        self._backup_id = backup_id
        self.started_at = started_at
        self._clock = asyncio.get_running_loop()
        self._renewed_at = self._clock.time()
        self._is_known = True

    async def keep(self) -> None:
        """Renews it, also after the database was away for a moment."""
        while self._is_known:
            asked_at = self._clock.time()
            with suppress(Unavailable):
                async with connected(self._url) as connection:
                    self._is_known = await backups.renew(connection, self._backup_id)
                self._renewed_at = asked_at
            await asyncio.sleep(GUARD.total_seconds() / 4)

    def check(self) -> None:
        """Raises if blobs may have been removed."""
        if not self._is_known or self._clock.time() > self._renewed_at + GUARD.total_seconds():
            raise Unavailable(
                "The database was not reachable for too long, so files may have been removed while"
                " they were copied.",
                "Start the backup again. The last one is unchanged.",
            )


@asynccontextmanager
async def announced(url: str, backup_id: str, is_encrypted: bool) -> AsyncIterator[Announcement]:
    async with connected(url) as connection, connection.transaction():
        started_at = await backups.begin(connection, backup_id, is_encrypted)
    announcement = Announcement(url, backup_id, started_at)
    keeping = asyncio.create_task(announcement.keep())
    try:
        yield announcement
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        with suppress(Unavailable):
            async with connected(url) as connection:
                await backups.give_up(connection, backup_id)
