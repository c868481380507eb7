"""A PostgreSQL whose clock the test sets, so that every time in every row can be compared.

Our own `now()` stands before PostgreSQL's in the search path, already when the schema is made: then
defaults and views use it too.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import asyncpg

from potluck.simulate.store.data import BEGINNING
from potluck.store.database import Connection, Database
from potluck.store.schema import migrate

NAME = "clocked"
_CLOCK = f"""
CREATE SCHEMA clock;
CREATE FUNCTION clock.now() RETURNS timestamptz STABLE LANGUAGE sql
    AS $$ SELECT current_setting('potluck.now')::timestamptz $$;
CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz STABLE LANGUAGE sql
    AS $$ SELECT current_setting('potluck.now')::timestamptz $$;
ALTER DATABASE {NAME} SET search_path = clock, pg_catalog, public;
ALTER DATABASE {NAME} SET potluck.now = '{BEGINNING.isoformat()}';
"""
# Children before their parents.
TABLES = (
    *("ledger_entries", "events", "failed_items", "attempt_devices", "attempts", "dependencies"),
    *("ended_tasks", "tasks", "lost_contests", "contests", "bindings", "devices", "wishes"),
    *("nodes", "node_keys", "balances", "audit", "audit_head", "accounts", "leader"),
    "event_head",
)
_EMPTY = f"""
SET session_replication_role = replica;
{"".join(f"DELETE FROM {table};" for table in TABLES)}
INSERT INTO leader DEFAULT VALUES;
INSERT INTO audit_head DEFAULT VALUES;
INSERT INTO event_head DEFAULT VALUES;
SET session_replication_role = origin;
"""


@contextmanager
def clocked_database(server_url: str) -> Iterator[str]:
    """The address of a migrated database with such a clock."""
    url = urlsplit(server_url)._replace(path=f"/{NAME}").geturl()
    asyncio.run(_make(server_url, url))
    try:
        yield url
    finally:
        asyncio.run(_execute(server_url, f"DROP DATABASE {NAME} WITH (FORCE)"))


async def _make(server_url: str, url: str) -> None:
    await _execute(server_url, f"CREATE DATABASE {NAME}")
    await _execute(url, _CLOCK)
    await migrate(url)


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


class ClockedDatabase(Database):
    """A pool of connections that all go by one clock."""

    now: datetime
    hold: Callable[[], Awaitable[None]] | None  # waited for before each commit

    @classmethod
    async def open(cls, url: str) -> "ClockedDatabase":
        database = cls((await Database.connect(url, 8))._pool)
        database.now, database.hold = BEGINNING, None
        return database

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        async with super().transaction() as connection:
            await connection.execute(f"SET LOCAL potluck.now = '{self.now.isoformat()}'")
            yield connection
            if self.hold is not None:
                await self.hold()

    @asynccontextmanager
    async def statement(self) -> AsyncIterator[Connection]:
        """What the clock shows is set for a transaction."""
        async with self.transaction() as connection:
            yield connection

    async def empty(self) -> None:
        async with self._pool.acquire() as connection:
            await connection.execute(_EMPTY)

    async def rows(self) -> dict[str, list[dict[str, Any]]]:
        async with self._pool.acquire() as connection:
            return {
                table: [dict(row) for row in await connection.fetch(f"SELECT * FROM {table}")]
                for table in TABLES
            }
