"""The PostgreSQL that histories run on: one for each process, with a virtual clock."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import asyncpg

from potluck.server.postgres import EmbeddedPostgres
from potluck.store.schema import migrate
from tests.databases import quick_directory

BEGINNING = datetime(2030, 1, 1, tzinfo=UTC)
# A history must not depend on how busy the machine is: nothing runs beside the statement in flight,
# and the driver of the sessions ends a deadlock before PostgreSQL would look for one.
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "synchronize_seqscans": "off",
    "deadlock_timeout": "1h",
    "shared_buffers": "64MB",
    "max_connections": "50",
}
_WATCHED = (
    *("tasks", "dependencies", "failed_items", "events", "attempts", "attempt_devices"),
    *("nodes", "devices", "balances", "ledger_entries"),
)


@contextmanager
def history_cluster() -> Iterator[str]:
    """The URL of a migrated database, which stops at the end of the block."""
    with quick_directory() as directory:
        postgres = EmbeddedPostgres(directory / "postgres", settings=_SETTINGS)
        url = asyncio.run(postgres.start())
        try:
            asyncio.run(_prepare(url))
            yield url
        finally:
            asyncio.run(postgres.stop())


async def _prepare(url: str) -> None:
    await _execute(
        url,
        Path(__file__).with_name("history_database.sql").read_text(),
        "ALTER DATABASE postgres SET search_path = public, clock, pg_catalog",
        f"ALTER DATABASE postgres SET clock.now = '{BEGINNING.isoformat()}'",
        # Otherwise query plans would depend on earlier histories.
        "ALTER DATABASE postgres SET plan_cache_mode = force_generic_plan",
    )
    await migrate(url)
    await _execute(url, f"CALL clock.prepare('{{{','.join(_WATCHED)}}}')")


async def _execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()
