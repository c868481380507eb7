"""A task that may run only on its owner's devices costs nothing, and proves nothing to others."""

from typing import Any

import pytest

from potluck.model.error import UnaffordableTask
from potluck.model.ids import AccountId
from potluck.model.task import EndReason, TaskState
from potluck.server.flow.settle.cancel import cancel
from potluck.server.flow.submit import submit
from potluck.server.leader.memory import LeaderMemory
from potluck.store.attempts.assign import PlannedAttempt, assign
from potluck.store.new_ids import new_attempt_id
from potluck.wire.provider import Grant, NodeRegistered, Started
from tests.server.flow.pool import Pool, done, lease_of, request, used
from tests.server.flow.settle.test_slices import let_pass, lose
from tests.wallets import Wallet

pytestmark = pytest.mark.every_postgres

HOUR_MICRO = 3_600_000_000
ALICE, BOB = Wallet("alice").address, Wallet("bob").address
COUNTS = "SELECT ARRAY[finished_attempts, lost_attempts] FROM nodes"


async def begin(
    pool: Pool, node: NodeRegistered, account_id: AccountId, *owners: str, **changes: Any
) -> Grant:
    task_request = request(owners=owners, run_seconds=86_400.0, **changes)
    await submit.submit(pool.services, account_id, task_request, None)
    await pool.plan()
    (grant,) = await pool.fetch(node.node_id)
    await pool.report(node.node_id, Started(lease_of(grant)))
    await let_pass(pool, 60)
    return grant


async def test_an_owner_without_credit_uses_their_own_device(pool: Pool) -> None:
    node = await pool.offer(price_micro_per_hour=HOUR_MICRO)
    grant = await begin(pool, node, pool.bob, BOB)
    assert grant.price_micro_per_hour == 0
    assert await pool.report(node.node_id, done(grant, usage=used(60.0))) == ["accepted"]
    assert await pool.sql("SELECT state FROM tasks") == TaskState.SUCCEEDED
    # Nothing was moved, so nothing was earned and no fee was taken.
    assert await pool.sql("SELECT count(*) FROM ledger_entries") == 0
    await pool.check()


async def test_own_tasks_do_not_change_the_reliability_of_a_node(pool: Pool) -> None:
    """Or an owner could run thousands of tasks for nothing to look reliable."""
    node = await pool.offer(price_micro_per_hour=HOUR_MICRO)
    grant = await begin(pool, node, pool.bob, BOB)
    await pool.report(node.node_id, done(grant))
    grant = await begin(pool, node, pool.bob, BOB)
    await pool.report(node.node_id, done(grant, EndReason.SANDBOX_FAILED))
    assert await pool.sql(COUNTS) == [0, 0]
    await cancel(pool.services, pool.bob, grant.task_id)
    grant = await begin(pool, node, pool.bob, BOB)
    await lose(pool)
    await pool.beat(node.node_id, lease_of(grant))  # takes it back
    assert await pool.sql(COUNTS) == [0, 0]
    await pool.report(node.node_id, done(grant))
    await pool.give(pool.alice, 10**15)
    grant = await begin(pool, node, pool.alice)
    await pool.report(node.node_id, done(grant))
    assert await pool.sql(COUNTS) == [1, 0]


@pytest.mark.parametrize("owners", [(), (BOB, ALICE)])
async def test_a_task_that_may_run_elsewhere_has_the_price_of_the_device(
    pool: Pool, owners: tuple[str, ...]
) -> None:
    """So one's own device is not preferred to others, nor taken from those who pay."""
    node = await pool.offer(price_micro_per_hour=HOUR_MICRO)
    with pytest.raises(UnaffordableTask):
        await begin(pool, node, pool.bob, *owners)
    await pool.give(pool.bob, 10**15)
    grant = await begin(pool, node, pool.bob, *owners)
    assert grant.price_micro_per_hour == HOUR_MICRO


async def test_a_stranger_pays_for_the_devices_of_one_owner(pool: Pool) -> None:
    node = await pool.offer(price_micro_per_hour=HOUR_MICRO)
    with pytest.raises(UnaffordableTask):
        await begin(pool, node, pool.alice, BOB)
    await pool.give(pool.alice, 10**15)
    grant = await begin(pool, node, pool.alice, BOB)
    assert grant.price_micro_per_hour == HOUR_MICRO
    await pool.report(node.node_id, done(grant, usage=used(60.0)))
    assert (await pool.balance(pool.bob)).available_micro > 0


@pytest.mark.parametrize(("is_own", "owners"), [(True, (BOB,)), (True, ()), (False, (BOB,))])
async def test_the_database_checks_a_plan_without_a_price_again(
    pool: Pool, is_own: bool, owners: tuple[str, ...]
) -> None:
    """The device was free when the plan was made, and is not when it is applied."""
    await pool.offer()
    task_request = request(owners=owners)
    await submit.submit(pool.services, pool.bob if is_own else pool.alice, task_request, None)
    memory = LeaderMemory(pool.services)
    await memory.begin()
    (assignment,) = memory.known.scheduler.plan(memory.now, 10).assignments
    assert assignment.price_micro_per_hour == 0
    async with pool.services.database.transaction() as connection:
        await connection.execute("UPDATE devices SET price_micro_per_hour = 20")
        planned_attempts = [PlannedAttempt(new_attempt_id(), assignment)]
        applied = await assign(connection, planned_attempts, pool.leads, 15.0)
    assert bool(applied) == (is_own and owners == (BOB,))
