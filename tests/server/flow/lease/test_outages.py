"""After an outage a node says many things at once, or starts anew: none of it costs its work."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from potluck.live.in_process import InProcessLive
from potluck.model.ids import NodeId
from potluck.model.task import EndReason, TaskState
from potluck.server import topics
from potluck.server.flow.housekeeping import expire
from potluck.server.flow.lease.adopt import readopt
from potluck.store.attempts import attempts
from potluck.wire.provider import Grant, ItemOutcome, ItemsDone, Started
from tests.server.flow.pool import Pool, done, lease_of

Say = Callable[[Pool, NodeId, Grant], Coroutine[Any, Any, None]]
WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


async def lost(pool: Pool, items: int | None = None) -> tuple[NodeId, Grant]:
    """An attempt that was given up, and its node with it."""
    node = await pool.offer()
    await pool.submit() if items is None else await pool.submit(items=items, run_seconds=10.0)
    await pool.plan()
    (grant,) = await pool.fetch(node.node_id)
    await pool.report(node.node_id, Started(lease_of(grant)))
    await pool.sql("UPDATE attempts SET lease_expires_at = now() - interval '1 second'")
    await pool.sql("UPDATE nodes SET heartbeat_at = now() - interval '1 day'")
    assert await expire.expire_once(pool.services, pool.leads) == 2
    return node.node_id, grant


async def send_items(pool: Pool, node_id: NodeId, grant: Grant) -> None:
    outcome = ItemOutcome(0, EndReason.COMPLETED, 0.1, 0)
    codes = await pool.report(node_id, ItemsDone(lease_of(grant), (outcome,)))
    assert codes == ["accepted"]


async def send_log(pool: Pool, node_id: NodeId, grant: Grant) -> None:
    assert await pool.say(node_id, lease_of(grant), 0, "hello") == 1


@pytest.mark.parametrize(
    ("report_lease", "items"),
    [pytest.param(send_log, None, id="a log"), pytest.param(send_items, 3, id="outcomes")],
)
async def test_a_report_during_readoption_finds_the_attempt_live(
    pool: Pool, report_lease: Say, items: int | None
) -> None:
    """Else a result would be refused, and dropped, because a heartbeat was a moment quicker."""
    node_id, grant = await lost(pool, items)
    async with pool.services.database.transaction() as connection:
        await attempts.lock_task(connection, grant.attempt_id)
        slower = asyncio.create_task(report_lease(pool, node_id, grant))
        async with asyncio.timeout(20):
            while not await pool.sql(WAITING):
                await asyncio.sleep(0.01)
        assert await readopt(pool.services, connection, grant.attempt_id, node_id)
    await slower
    await pool.check()


async def test_a_node_that_starts_anew_has_its_work_before_it_is_given_any(pool: Pool) -> None:
    """The leader is as quick as can be: it plans at each moment at which it could be woken."""
    node_id, grant = await lost(pool)

    class Hurried(InProcessLive):
        async def wake(self, topic: str) -> None:
            if topic == topics.SCHEDULE:
                await pool.plan()

    pool.services = replace(pool.services, live=Hurried())
    assert (await pool.offer(node_id)).node_id == node_id
    assert await pool.fetch(node_id, lease_of(grant)) == []
    assert await pool.sql("SELECT count(*) FROM attempts") == 1
    assert await pool.report(node_id, done(grant)) == ["accepted"]
    assert (await pool.task(grant.task_id)).state is TaskState.SUCCEEDED
    await pool.check()


async def test_a_node_that_starts_anew_with_nothing_is_given_work(pool: Pool) -> None:
    node_id, grant = await lost(pool)
    await pool.offer(node_id)
    assert await pool.fetch(node_id) == []
    await pool.plan()
    (second_grant,) = await pool.fetch(node_id)
    assert second_grant.task_id == grant.task_id
