"""Attempts of a stream are locked in the order of their ids, as a heartbeat of their node does."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from potluck.model.ids import NodeId, TaskId
from potluck.server.flow.lease import lease
from potluck.wire.provider import AcquireLeases, Grant, Started
from tests.server.flow.pool import Pool, lease_of
from tests.server.flow.submit.test_streams import add, open_stream, returned
from tests.server.flow.test_lock_order import until_it_waits

Stage = Callable[[Pool, NodeId, TaskId, Grant], Awaitable[object]]


async def two_attempts(pool: Pool) -> tuple[NodeId, TaskId, Grant, Grant]:
    """Both on one node. The first has an item to do, the second a few; one more waits."""
    node_id = (await pool.offer(devices=2)).node_id
    task_id = (await open_stream(pool)).id
    await pool.plan()
    (first,) = await _fetch(pool, node_id)
    await pool.report(node_id, Started(lease_of(first)), returned(first, 0, 1))
    # So slow that each gets one at a time.
    await pool.sql("UPDATE tasks SET items_seconds = 100")
    await add(pool, task_id, 1, b"1", b"2", b"3")
    await pool.plan()
    (second,) = await _fetch(pool, node_id, first)
    assert first.attempt_id < second.attempt_id
    await pool.report(node_id, Started(lease_of(second)), returned(second, 2, 3))
    await add(pool, task_id, 4, b"4")
    return node_id, task_id, first, second


async def _fetch(pool: Pool, node_id: NodeId, *held_grants: Grant) -> list[Grant]:
    poll_request = AcquireLeases(tuple(map(lease_of, held_grants)), wait_seconds=0, streams=())
    return (await lease.acquire(pool.services, pool.bobs, node_id, poll_request)).grants


async def _report(pool: Pool, node_id: NodeId, _: TaskId, second: Grant) -> object:
    return await pool.report(node_id, returned(second, 3, 4))


async def _append(pool: Pool, node_id: NodeId, task_id: TaskId, second: Grant) -> object:
    # It has the least to do, so it is the first to get some.
    await pool.sql("UPDATE attempts SET remaining = '{}' WHERE id = $1", second.attempt_id)
    return await add(pool, task_id, 5, b"5")


@pytest.mark.parametrize("stage", [_report, _append], ids=["report", "append"])
async def test_a_stage_of_a_stream_waits_for_the_first_attempt_without_holding_the_second(
    pool: Pool, stage: Stage
) -> None:
    node_id, task_id, first, second = await two_attempts(pool)
    row = "SELECT FROM attempts WHERE id = $1 FOR UPDATE"
    async with pool.services.database.transaction() as connection:
        await connection.execute(row, first.attempt_id)
        running = asyncio.ensure_future(stage(pool, node_id, task_id, second))
        await until_it_waits(pool, running)
        await connection.execute(f"{row} NOWAIT", second.attempt_id)
    await running
