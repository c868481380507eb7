"""Rows are locked in one order: task, attempt, node, device, balance. So nobody waits in a circle.

Each test holds one row, lets a stage run into it, and asks for a row that the stage must not have
taken yet. In another order the two would wait for each other.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from potluck.model.ids import NodeId
from potluck.server.flow import cancel
from potluck.wire.provider import Grant, Preparing, Started
from tests.flow.pool import Pool, done, lease_of

Stage = Callable[[Pool, NodeId, Grant], Awaitable[Any]]

TASK = "SELECT FROM tasks FOR UPDATE"
ATTEMPT = "SELECT FROM attempts FOR UPDATE"
NODE = "SELECT FROM nodes FOR UPDATE"
DEVICE = "SELECT FROM devices FOR UPDATE"
BALANCE = "SELECT FROM balances FOR UPDATE"

ORDER = [
    # (the stage, the row that somebody holds, the row that must still be free)
    ("preparing", lambda p, n, g: p.report(n, Preparing(lease_of(g))), TASK, ATTEMPT),
    ("started", lambda p, n, g: p.report(n, Started(lease_of(g))), TASK, ATTEMPT),
    ("finished", lambda p, n, g: p.report(n, done(g)), TASK, ATTEMPT),
    ("finished", lambda p, n, g: p.report(n, done(g)), ATTEMPT, DEVICE),
    ("finished, its device", lambda p, n, g: p.finish(g), NODE, DEVICE),
    ("finished, its pay", lambda p, n, g: p.finish(g), DEVICE, BALANCE),
    ("cancel", lambda p, n, g: cancel.cancel(p.parts, p.alice, g.task_id), TASK, ATTEMPT),
    ("cancel", lambda p, n, g: cancel.cancel(p.parts, p.alice, g.task_id), ATTEMPT, NODE),
    ("heartbeat", lambda p, n, g: p.beat(n, lease_of(g)), ATTEMPT, NODE),
    ("poll", lambda p, n, g: p.fetch(n), ATTEMPT, NODE),
]


@pytest.mark.parametrize(
    ("stage", "held", "free"), [row[1:] for row in ORDER], ids=[row[0] for row in ORDER]
)
async def test_a_stage_waits_without_holding_what_comes_later(
    pool: Pool, stage: Stage, held: str, free: str
) -> None:
    await pool.give(pool.alice, 10**12)
    node_id, grant = await pool.started(price_micro_per_hour=1000, run_seconds=10.0)
    async with pool.parts.database.transaction() as connection:
        await connection.execute(held)
        running = asyncio.ensure_future(stage(pool, node_id, grant))
        await _until_it_waits(pool, running)
        await connection.execute(f"{free} NOWAIT")
    await running
    await pool.check()


@pytest.mark.parametrize(
    ("held", "free"),
    [
        ("SELECT FROM tasks WHERE id = (SELECT max(id) FROM tasks) FOR UPDATE", NODE),
        ("SELECT FROM nodes WHERE id = (SELECT max(id) FROM nodes) FOR UPDATE", DEVICE),
        ("SELECT FROM devices WHERE id = (SELECT max(id) FROM devices) FOR UPDATE", BALANCE),
    ],
    ids=["tasks first", "then nodes", "then devices"],
)
async def test_a_batch_takes_its_rows_kind_by_kind(pool: Pool, held: str, free: str) -> None:
    await pool.give(pool.alice, 10**12)
    for _ in range(2):
        await pool.offer(price_micro_per_hour=1000)
        await pool.submit(run_seconds=10.0)
    async with pool.parts.database.transaction() as connection:
        await connection.execute(held)
        running = asyncio.ensure_future(pool.plan())
        await _until_it_waits(pool, running)
        await connection.execute(f"{free} NOWAIT")
    assert len((await running).assigned) == 2
    await pool.check()


async def _until_it_waits(pool: Pool, running: "asyncio.Future[Any]") -> None:
    """Until a connection of this database waits for a lock."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    while not await pool.sql(waiting):
        assert not running.done(), "it did not run into the row at all"
