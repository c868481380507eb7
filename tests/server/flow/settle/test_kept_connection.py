"""The leader renews its term, whatever requests wait for."""

import asyncio

from potluck.server.flow.settle import cancel
from potluck.server.loops.leadership import LeadershipLoop
from potluck.store.scheduler import leader
from tests.server.flow.pool import Pool


async def test_requests_that_wait_for_one_row_leave_the_leader_a_connection(pool: Pool) -> None:
    task = await pool.submit()
    await pool.sql("UPDATE leader SET holder = $1", pool.services.instance)
    async with pool.services.database.transaction() as connection:
        await connection.execute("SELECT FROM tasks WHERE id = $1 FOR UPDATE", task.id)
        requests = [
            asyncio.create_task(cancel.cancel(pool.services, pool.alice, task.id))
            for _ in range(12)
        ]
        await asyncio.sleep(0.3)
        async with asyncio.timeout(3):
            leadership = await LeadershipLoop(pool.services)._lead()
    await asyncio.gather(*requests, return_exceptions=True)
    assert leadership is not None and leadership.term == pool.leads.term


async def test_waiting_for_the_leader_row_is_bounded(pool: Pool) -> None:
    """The renewal waits for it."""
    async with pool.services.database.transaction() as connection:
        assert await leader.is_current(connection, pool.leads)
        assert await connection.fetchval("SHOW lock_timeout") == "1s"
    assert await pool.sql("SHOW lock_timeout") == "10s"
