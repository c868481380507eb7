"""The leader renews its term, whatever requests wait for."""

import asyncio

from structlog.testing import capture_logs

from potluck.model.error import Unavailable
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


async def test_what_a_duty_waits_for_is_logged_once(pool: Pool) -> None:
    """The database's disk, which may be full, may have the log too."""
    answers: list[Exception | None] = [Unavailable("full"), Unavailable("full"), TimeoutError()]
    answers += [None, Unavailable("full")]
    loop = LeadershipLoop(pool.services)

    async def duty() -> None:
        answer = answers.pop(0)
        if answer is not None:
            raise answer

    with capture_logs() as lines:
        while answers:
            await loop._run_guarded(duty)
    assert [line["detail"] for line in lines] == ["full", "", "full"]


async def test_waiting_for_the_leader_row_is_bounded(pool: Pool) -> None:
    """The renewal waits for it."""
    async with pool.services.database.transaction() as connection:
        assert await leader.is_current(connection, pool.leads)
        assert await connection.fetchval("SHOW lock_timeout") == "1s"
    assert await pool.sql("SHOW lock_timeout") == "10s"
