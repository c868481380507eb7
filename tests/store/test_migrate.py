"""Migrating while others work: one does it, requests pass, and it can be shown before."""

import asyncio
from collections.abc import Iterator

import asyncpg
import pytest

from potluck.store import schema
from tests.databases import Databases


@pytest.fixture
def empty_url(databases: Databases) -> Iterator[str]:
    with databases.empty() as url:
        yield url


async def test_pending_migrations_are_listed_without_a_change(empty_url: str) -> None:
    assert await schema.list_pending(empty_url) == list(schema.read_migrations())
    connection = await asyncpg.connect(empty_url)
    try:
        assert await schema.is_empty(connection)
    finally:
        await connection.close()
    assert await schema.migrate(empty_url) == list(schema.read_migrations())
    assert await schema.list_pending(empty_url) == []


async def test_of_concurrent_instances_one_migrates_and_the_others_wait(empty_url: str) -> None:
    applied = await asyncio.gather(*(schema.migrate(empty_url) for _ in range(3)))
    assert sorted(map(len, applied)) == [0, 0, len(schema.read_migrations())]


async def test_a_migration_that_waits_for_a_table_lets_requests_pass(empty_url: str) -> None:
    """Its lock would queue before theirs for as long as the long transaction lasts."""
    long, other = [await asyncpg.connect(empty_url) for _ in range(2)]
    try:
        async with long.transaction():
            await schema.install(long, [f"{number:04}" for number in range(1, 18)])
        transaction = long.transaction()
        await transaction.start()
        await long.fetch("SELECT id FROM accounts")
        migrating = asyncio.create_task(schema.migrate(empty_url, lock_seconds=0.1))
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        while not await other.fetchval(waiting):
            assert not migrating.done()
        async with asyncio.timeout(10):  # it would be for ever
            assert await other.fetch("SELECT id FROM accounts") == []
        assert not migrating.done()
        await transaction.rollback()
        assert (await migrating)[0].number == "0018"
    finally:
        await long.close()
        await other.close()
