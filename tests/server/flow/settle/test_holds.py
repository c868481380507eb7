"""A hold is a pending transfer: named by its attempt, posted at most once, and the rest returns."""

import asyncpg
import pytest

from potluck.decide.charges import hold_entries
from potluck.model.ids import NodeId
from potluck.model.task import EndReason
from potluck.server.flow.settle.cancel import cancel
from potluck.store.ledger import ledger
from potluck.store.ledger.ledger import Movement
from potluck.wire.provider import Grant
from tests.server.flow.pool import Pool, done, used

pytestmark = pytest.mark.every_postgres

# A credit a second.
PRICE = 3_600_000_000
SECOND = 1_000_000


async def begin(pool: Pool) -> tuple[NodeId, Grant]:
    """A hundred seconds are held, and a minute has passed."""
    await pool.give(pool.alice, 1000 * SECOND)
    node_id, grant = await pool.started(price_micro_per_hour=PRICE, run_seconds=100.0)
    await pool.sql("UPDATE attempts SET started_at = started_at - interval '60 s'")
    return node_id, grant


async def credit(pool: Pool) -> tuple[int, int, int]:
    """What Alice has, what is held for her tasks, and what Bob has."""
    alice, bob = await pool.balance(pool.alice), await pool.balance(pool.bob)
    return tuple(  # type: ignore[return-value]
        micro // SECOND for micro in (alice.available_micro, alice.held_micro, bob.available_micro)
    )


async def test_a_repeated_hold_is_taken_once(pool: Pool) -> None:
    _, grant = await begin(pool)
    with pytest.raises(asyncpg.UniqueViolationError):
        async with pool.services.database.transaction() as connection:
            second_hold = Movement(hold_entries(pool.alice, 100 * SECOND), grant.attempt_id)
            await ledger.append_many(connection, [second_hold])
    assert await credit(pool) == (900, 100, 0)
    await pool.check()


async def test_less_than_the_hold_is_posted_and_the_rest_returns(pool: Pool) -> None:
    node_id, grant = await begin(pool)
    assert await pool.report(node_id, done(grant, usage=used(10))) == ["accepted"]
    assert await credit(pool) == (990, 0, 10)
    await pool.check()


async def test_never_more_than_the_hold_is_posted(pool: Pool) -> None:
    """Whatever the node says, and however late the end comes."""
    node_id, grant = await begin(pool)
    await pool.sql("UPDATE attempts SET started_at = started_at - interval '1 day'")
    assert await pool.report(node_id, done(grant, usage=used(86_400))) == ["accepted"]
    assert await credit(pool) == (900, 0, 100)
    await pool.check()


async def test_a_hold_is_voided_if_nothing_is_owed(pool: Pool) -> None:
    node_id, grant = await begin(pool)
    assert await pool.report(node_id, done(grant, EndReason.DECLINED)) == ["accepted"]
    assert await credit(pool) == (1000, 0, 0)
    await pool.check()


async def test_a_hold_resolves_at_most_once(pool: Pool) -> None:
    """The end again, another end, and a cancellation change nothing."""
    node_id, grant = await begin(pool)
    finish = done(grant, usage=used(10))
    assert await pool.report(node_id, finish) == ["accepted"]
    assert await pool.report(node_id, finish) == ["accepted"]
    other = done(grant, EndReason.EXIT_STATUS, usage=used(50), exit_code=1)
    assert await pool.report(node_id, other) == ["conflict"]
    with pytest.raises(Exception, match="has already succeeded"):
        await cancel(pool.services, pool.alice, grant.task_id)
    assert await credit(pool) == (990, 0, 10)
    await pool.check()


async def test_the_database_refuses_to_settle_a_life_twice(pool: Pool) -> None:
    node_id, grant = await begin(pool)
    await pool.report(node_id, done(grant, usage=used(10)))
    with pytest.raises(asyncpg.UniqueViolationError):
        async with pool.services.database.transaction() as connection:
            await connection.execute(
                "INSERT INTO ledger_entries (attempt_id, account_id, kind, purse, amount_micro)"
                " SELECT attempt_id, account_id, kind, purse, amount_micro FROM ledger_entries"
                " WHERE attempt_id = $1 AND kind IN ('charge', 'reward')",
                grant.attempt_id,
            )
    await pool.check()
