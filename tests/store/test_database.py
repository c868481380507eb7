"""Connections and transactions."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from urllib.parse import urlsplit

import asyncpg
import pytest

from potluck.model.error import BadSettings, Unavailable
from potluck.store.database import Database
from potluck.store.schema import check_address


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = await Database.connect(database_url, 4)
    yield database
    await database.close()


async def _ask_for_ever(database: Database) -> None:
    while True:
        async with database.transaction() as connection:
            await connection.fetchval("SELECT 1")


async def test_a_cancelled_attempt_ends_at_any_step(database: Database) -> None:
    """A server stops when its duties have ended: one that goes on keeps it for ever."""
    for steps in range(40):
        asking = asyncio.create_task(_ask_for_ever(database))
        for _ in range(steps):
            await asyncio.sleep(0)
        asking.cancel()
        finished, _ = await asyncio.wait([asking], timeout=10)
        went_on = not finished
        while not asking.done():
            asking.cancel()
            await asyncio.sleep(0)
        assert not went_on, f"after {steps} steps"
        assert asking.cancelled()


async def test_health_is_checked_while_requests_hold_all_connections(database: Database) -> None:
    """A busy server is not one whose database is away."""
    async with AsyncExitStack() as stack:
        for _ in range(4):
            await stack.enter_async_context(database.transaction())
        async with (
            asyncio.timeout(5),
            database.reserved_transaction(),
            database.reserved_statement() as reserved,
        ):
            assert await reserved.fetchval("SELECT 1") == 1


async def test_a_full_disk_is_reported_by_its_name(database: Database) -> None:
    refuse = "DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = 'disk_full'; END $$"
    assert not database.is_disk_full
    with pytest.raises(Unavailable, match="disk of the server's database is full"):
        async with database.transaction() as connection:
            await connection.execute(refuse)
    assert database.is_disk_full


def _with(url: str, **changes: str) -> str:
    return urlsplit(url)._replace(**changes).geturl()


async def test_an_unreachable_address_is_distinguished_from_a_refusing_one(
    database_url: str,
) -> None:
    """A starting server waits for the first, and not for the second."""
    await check_address(database_url)
    with pytest.raises(Unavailable, match="does not answer"):
        await check_address(_with(database_url, query="host=/nowhere"))
    with socket.create_server(("127.0.0.1", 0)) as other:
        closed = other.getsockname()[1]
    with pytest.raises(Unavailable, match="does not answer"):
        await check_address(f"postgresql://potluck:x@127.0.0.1:{closed}/potluck")
    for url, sentence in (
        (_with(database_url, path="/nowhere"), '"nowhere" does not exist'),
        (_with(database_url, netloc="potluck:wrong@"), "password authentication failed"),
        ("nonsense", "cannot be read"),
    ):
        with pytest.raises(BadSettings, match=sentence):
            await check_address(url)


async def test_a_column_that_a_later_server_adds_costs_a_retry_at_most(database_url: str) -> None:
    """A prepared statement then has another result, which a transaction cannot survive."""
    database = await Database.connect(database_url, 2)
    try:
        read = "SELECT * FROM accounts WHERE id = $1"
        async with database.transaction() as connection:
            await connection.fetch(read, "account_1")
        other = await asyncpg.connect(database_url)
        await other.execute("ALTER TABLE accounts ADD COLUMN later text")
        await other.close()
        with pytest.raises(Unavailable):
            async with database.transaction() as connection:
                await connection.fetch(read, "account_1")
        async with database.transaction() as connection:
            await connection.fetch(read, "account_1")
    finally:
        await database.close()
