"""PgBouncer in transaction mode: a session may be another one after each transaction."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from potluck.model.error import BadSettings, Unavailable
from potluck.server.settings import read_settings
from potluck.store.database import Database
from potluck.store.schema import migrate
from tests.databases import Databases
from tests.deploy.pgbouncer import pgbouncer

POOL_SIZE = 4


@pytest.fixture(scope="module")
def empty_url(databases: Databases) -> Iterator[str]:
    with databases.empty() as url:
        yield url


@pytest.fixture(scope="module")
def pooled_url(empty_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with pgbouncer(tmp_path_factory.mktemp("pgbouncer"), empty_url, POOL_SIZE) as url:
        yield url


@pytest.fixture
async def database(pooled_url: str) -> AsyncIterator[Database]:
    database = await Database.connect(pooled_url, 16, 1.0, is_pooled=True)
    yield database
    await database.close()


async def test_migrations_of_several_servers_run_through_it(pooled_url: str) -> None:
    """The lock is the transaction's. Without a direct address this is how a new database begins."""
    await asyncio.gather(*(migrate(pooled_url) for _ in range(3)))


async def test_hundreds_of_statements_and_transactions_share_four_sessions(
    database: Database,
) -> None:
    """With parameters, which drivers like to prepare under a name."""
    sessions: set[int] = set()

    async def ask(number: int) -> None:
        async with database.statement() as connection:
            row = await connection.fetchrow("SELECT $1::int AS n, pg_backend_pid() AS pid", number)
            assert row["n"] == number
            sessions.add(row["pid"])
        async with database.transaction() as connection:
            assert await connection.fetchval("SELECT $1::text[]", [str(number)]) == [str(number)]
            sessions.add(await connection.fetchval("SELECT pg_backend_pid()"))

    await asyncio.gather(*(ask(number) for number in range(300)))
    assert 1 < len(sessions) <= POOL_SIZE


async def test_a_transaction_has_its_timeouts_and_leaves_none_behind(
    database: Database, pooled_url: str
) -> None:
    query = "SELECT current_setting('lock_timeout') || ' ' || current_setting('TimeZone')"
    async with database.transaction() as connection:
        assert await connection.fetchval(query) == "10s UTC"
        idle = "SELECT current_setting('idle_in_transaction_session_timeout')"
        assert await connection.fetchval(idle) == "1s"
    other = await asyncpg.connect(pooled_url, statement_cache_size=0)
    for _ in range(8):
        assert (await other.fetchval(query)).startswith("0 ")
    await other.close()


async def test_a_process_that_stalls_in_a_transaction_loses_its_locks(database: Database) -> None:
    lock, is_locked = "SELECT pg_advisory_xact_lock(1)", False
    with pytest.raises(Unavailable):
        async with database.transaction() as connection:
            await connection.execute(lock)
            async with database.transaction() as other:
                await other.execute(lock)
                is_locked = True
            await connection.execute("SELECT 1")
    assert is_locked, "the other one got it"


def test_a_direct_address_needs_the_other_one(tmp_path: Path) -> None:
    variables = {
        "POTLUCK_DATA_DIR": str(tmp_path),
        "POTLUCK_DATABASE_DIRECT_URL": "postgresql://potluck@127.0.0.1/potluck",
    }
    with pytest.raises(BadSettings, match="POTLUCK_DATABASE_DIRECT_URL"):
        read_settings({}, variables)
