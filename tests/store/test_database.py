"""Connections and transactions."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from potluck.store.database import Database


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = await Database.connect(database_url, 4)
    yield database
    await database.close()


async def _ask_for_ever(database: Database) -> None:
    while True:
        async with database.transaction() as connection:
            await connection.fetchval("SELECT 1")


async def test_who_is_called_off_ends_at_whatever_step_it_is(database: Database) -> None:
    """A server stops when its duties have ended: one that goes on keeps it for ever."""
    for steps in range(40):
        asking = asyncio.create_task(_ask_for_ever(database))
        for _ in range(steps):
            await asyncio.sleep(0)
        asking.cancel()
        done, _ = await asyncio.wait([asking], timeout=10)
        went_on = not done
        while not asking.done():
            asking.cancel()
            await asyncio.sleep(0)
        assert not went_on, f"after {steps} steps"
        assert asking.cancelled()
