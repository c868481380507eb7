"""Many spend one balance at once: exactly what it allows goes through."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
from msgspec.structs import replace

from potluck.decide.charges import grant_entries
from potluck.model.error import PotluckError
from potluck.server.accounts import administration
from potluck.store.database import Database
from potluck.store.ledger import ledger
from potluck.wire.admin import TakeCredit
from tests.server.flow.pool import Pool
from tests.server.flow.schedule.arrays import place

pytestmark = pytest.mark.every_postgres

SPENDS = 200
CREDIT = 1_000_000
# For the hour that each task may run.
PRICE = CREDIT


@pytest.fixture
async def wide(pool: Pool, any_database_url: str) -> AsyncIterator[Pool]:
    """With many connections: the spends really are parallel."""
    database = await Database.connect(any_database_url, 40)
    try:
        pool.services = replace(pool.services, database=database)
        yield pool
    finally:
        await database.close()


async def spend(pool: Pool) -> bool:
    try:
        async with pool.services.database.transaction() as connection:
            await ledger.append(connection, grant_entries(pool.alice, -CREDIT))
    except asyncpg.CheckViolationError:
        return False
    return True


async def test_the_ledger_lets_through_what_the_balance_allows(wide: Pool) -> None:
    await wide.give(wide.alice, 37 * CREDIT + 1)
    outcomes = await asyncio.gather(*(spend(wide) for _ in range(SPENDS)))
    assert sum(outcomes) == 37
    assert (await wide.balance(wide.alice)).available_micro == 1
    await wide.check()


async def test_holds_of_parallel_assignments_and_revocations_share_one_balance(wide: Pool) -> None:
    """A hundred of each: what is held and what was taken back is the whole balance, and no more."""
    half = SPENDS // 2
    await wide.give(wide.alice, 37 * CREDIT)
    settings = replace(wide.services.settings, settle_seconds=86_400.0)
    wide.services = replace(wide.services, settings=settings)
    nodes = [await wide.offer(price_micro_per_hour=PRICE) for _ in range(half)]
    tasks = [await wide.submit(run_seconds=3600.0) for _ in range(half)]

    async def revoke() -> bool:
        try:
            request = TakeCredit(CREDIT, "a test")
            await administration.take(wide.services, wide.bob, wide.alice, request)
        except PotluckError:
            return False
        return True

    assigned = [
        place(wide, node, task.id, price=PRICE) for node, task in zip(nodes, tasks, strict=True)
    ]
    outcomes = await asyncio.gather(*assigned, *(revoke() for _ in range(half)))
    held_count, taken_count = sum(outcomes[:half]), sum(outcomes[half:])
    assert held_count + taken_count == 37
    alice = await wide.balance(wide.alice)
    assert (alice.available_micro, alice.held_micro) == (0, held_count * CREDIT)
    await wide.check()
