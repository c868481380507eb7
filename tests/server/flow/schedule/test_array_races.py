"""Arrays when several things happen at once: an item is counted once, the end comes once."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from potluck.model.error import Conflict
from potluck.model.ids import TaskId
from potluck.model.task import EndReason, TaskState
from potluck.server.flow.housekeeping import expire
from potluck.server.flow.settle import cancel
from potluck.wire.provider import Grant, NodeRegistered
from tests.server.flow.pool import Pool, done, lease_of
from tests.server.flow.schedule.arrays import assign, failed, give, succeeded

ROUNDS = 8


async def test_concurrent_reports_of_one_array_all_count(pool: Pool) -> None:
    nodes = [await pool.offer() for _ in range(4)]
    task = await pool.submit(items=80, allow_failures=80)
    grants = [await give(pool, node, task.id, 20 * n, 20 * n + 20) for n, node in enumerate(nodes)]
    codes = await asyncio.gather(
        *(_in_parts(pool, *node_and_grant) for node_and_grant in zip(nodes, grants, strict=True))
    )
    assert codes == [["accepted"] * 11] * 4
    after = await pool.task(task.id)
    assert after.state is TaskState.SUCCEEDED and after.items is not None
    assert (after.items.succeeded, after.items.failed) == (60, 20)
    finished = "SELECT count(*) FROM events WHERE kind = 'task.finished'"
    assert await pool.sql(finished) == 1
    await pool.check()


async def _in_parts(pool: Pool, node: NodeRegistered, grant: Grant) -> list[str]:
    start = grant.items[0].start
    codes: list[str] = []
    for item in range(start, start + 20, 4):
        codes += await pool.report(node.node_id, succeeded(grant, item, item + 1, item + 2))
        codes += await pool.report(node.node_id, failed(grant, item + 3))
    return codes + await pool.report(node.node_id, done(grant))


async def test_the_last_two_ranges_that_end_at_once_end_the_array(pool: Pool) -> None:
    """Each must see that the other has ended, or the array would never end."""
    first_node, other = await pool.offer(), await pool.offer()
    for _ in range(ROUNDS):
        task = await pool.submit(items=2)
        first, second = (
            await give(pool, first_node, task.id, 0, 1),
            await give(pool, other, task.id, 1, 2),
        )
        await asyncio.gather(
            pool.report(first_node.node_id, succeeded(first, 0), done(first)),
            pool.report(other.node_id, succeeded(second, 1), done(second)),
        )
        assert (await pool.task(task.id)).state is TaskState.SUCCEEDED
    await pool.check()


async def test_reports_and_a_cancellation_agree(pool: Pool) -> None:
    await pool.give(pool.alice, 10**12)
    nodes = [await pool.offer(price_micro_per_hour=1000) for _ in range(3)]
    for _ in range(ROUNDS):
        task = await pool.submit(items=9, run_seconds=10.0)
        ranges = [
            (node, await give(pool, node, task.id, 3 * n, 3 * n + 3, 1000))
            for n, node in enumerate(nodes)
        ]
        outcomes = await asyncio.gather(
            *(_finish(pool, *node_and_range) for node_and_range in ranges),
            *(pool.beat(node.node_id, lease_of(grant)) for node, grant in ranges),
            _cancel_soon(pool, task.id),
            return_exceptions=True,
        )
        unwanted = [e for e in outcomes if isinstance(e, Exception) and not isinstance(e, Conflict)]
        assert not unwanted
        assert (await pool.task(task.id)).state.is_final
        await pool.check()


async def _finish(pool: Pool, node: NodeRegistered, grant: Grant) -> None:
    start = grant.items[0].start
    for item in range(start, start + 3):
        await pool.report(node.node_id, succeeded(grant, item))
    await pool.report(node.node_id, done(grant))


async def _cancel_soon(pool: Pool, task_id: TaskId) -> None:
    for _ in range(random.randrange(8)):
        await pool.task(task_id)
    await cancel.cancel(pool.services, pool.alice, task_id)


async def test_reports_and_an_expiry_agree(pool: Pool) -> None:
    """Whoever comes first wins, and what was accepted stays so; what was lost may come back."""
    node = await pool.offer()
    for _ in range(ROUNDS):
        task = await pool.submit(items=4)
        grant = await give(pool, node, task.id, 0, 4)
        await pool.report(node.node_id, succeeded(grant, 0))
        await pool.sql("UPDATE attempts SET lease_expires_at = now() WHERE finished_at IS NULL")
        codes, _ = await asyncio.gather(
            pool.report(node.node_id, succeeded(grant, 1, 2, 3), done(grant)),
            expire.expire_once(pool.services, pool.leads),
        )
        after = await pool.task(task.id)
        # All items may have been accepted before the lease ran out: then nothing is left to end.
        assert codes[0] == "accepted" and codes[1] in ("accepted", "stale_lease")
        assert after.state is TaskState.SUCCEEDED
        await pool.check()


async def test_a_lost_range_and_its_new_owner_never_both_count(pool: Pool) -> None:
    """The old node reports while its items are granted to another: one of them is stale."""
    old, new = await pool.offer(), await pool.offer()
    for _ in range(ROUNDS):
        task = await pool.submit(items=3)
        grant = await give(pool, old, task.id, 0, 3)
        await pool.sql("UPDATE attempts SET lease_expires_at = now() WHERE finished_at IS NULL")
        await expire.expire_once(pool.services, pool.leads)
        codes, granted = await asyncio.gather(
            pool.report(old.node_id, succeeded(grant, 0, 1, 2), done(grant)),
            assign(pool, new, task.id, 0, 3),
        )
        assert (codes == ["accepted", "accepted"]) != granted, (codes, granted)
        if granted:
            (second_grant,) = await pool.fetch(new.node_id)
            await pool.report(new.node_id, succeeded(second_grant, 0, 1, 2), done(second_grant))
        assert (await pool.task(task.id)).state is TaskState.SUCCEEDED
        await pool.check()


Stage = Callable[[Pool, TaskId], Awaitable[Any]]
ORDER = [
    # (the row that somebody holds, the row that must still be free)
    ("SELECT FROM attempts ORDER BY id LIMIT 1 FOR UPDATE", "SELECT FROM nodes FOR UPDATE"),
    ("SELECT FROM attempts ORDER BY id DESC LIMIT 1 FOR UPDATE", "SELECT FROM nodes FOR UPDATE"),
    ("SELECT FROM nodes ORDER BY id DESC LIMIT 1 FOR UPDATE", "SELECT FROM devices FOR UPDATE"),
    ("SELECT FROM devices ORDER BY id DESC LIMIT 1 FOR UPDATE", "SELECT FROM balances FOR UPDATE"),
]


@pytest.mark.parametrize(("locking", "free"), ORDER)
async def test_cancelling_many_ranges_takes_the_rows_kind_by_kind(
    pool: Pool, locking: str, free: str
) -> None:
    await pool.give(pool.alice, 10**12)
    task = await pool.submit(items=3, run_seconds=10.0)
    for item in range(3):
        await give(pool, await pool.offer(price_micro_per_hour=1000), task.id, item, item + 1, 1000)
    async with pool.services.database.transaction() as connection:
        await connection.execute(locking)
        running = asyncio.ensure_future(cancel.cancel(pool.services, pool.alice, task.id))
        waiting = (
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        while not await pool.sql(waiting):
            assert not running.done(), "it did not run into the row at all"
        await connection.execute(f"{free} NOWAIT")
    assert (await running).reason is EndReason.CANCELLED
    await pool.check()
