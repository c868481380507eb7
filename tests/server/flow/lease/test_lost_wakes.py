"""Every wake-up may be lost: whoever waits looks again, and nothing waits longer than a poll."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from msgspec.structs import replace

from potluck.live.in_process import InProcessLive
from potluck.model.task import TaskState
from potluck.server.flow.lease import lease
from potluck.server.flow.notify import task_stream
from potluck.server.flow.notify.task_stream import StreamPosition
from potluck.server.flow.schedule.explain_task import explain
from potluck.server.loops.leadership import LeadershipLoop
from potluck.wire.consumer import FollowedState
from potluck.wire.provider import AcquireLeases, Grant, Started
from tests.server.flow.pool import Pool, done, lease_of

POLL_SECONDS = 1.0
# A poll, and what a busy machine takes for the work itself.
MOST_SECONDS = POLL_SECONDS + 3.0

T = TypeVar("T")


class DeafLive(InProcessLive):
    """Nobody hears anything."""

    async def wake(self, topic: str) -> None:
        pass


@asynccontextmanager
async def deaf(pool: Pool) -> AsyncIterator[Pool]:
    """The pool with a leader at work, and every wake-up dropped."""
    polls = ("lease", "schedule", "notify", "follow", "expire")
    times = {f"{name}_poll_seconds": POLL_SECONDS for name in polls}
    settings = replace(
        pool.services.settings, poll_seconds=10.0, answer_seconds=2 * POLL_SECONDS, **times
    )
    parts = replace(pool.services, live=DeafLive(), settings=settings)
    await pool.sql("UPDATE leader SET expires_at = now()")
    leading = asyncio.create_task(LeadershipLoop(parts).run())
    pool.services = parts
    try:
        yield pool
    finally:
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)


async def soon(coming: Awaitable[T]) -> T:
    return await asyncio.wait_for(coming, MOST_SECONDS)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    started = time.monotonic()
    while not await condition():
        assert time.monotonic() - started < MOST_SECONDS, "it takes longer than a poll"
        await asyncio.sleep(0.01)


async def test_lost_wake_ups_delay_nothing_beyond_a_poll(pool: Pool) -> None:
    async with deaf(pool):
        node = await pool.offer()
        request = AcquireLeases((), wait_seconds=10.0)
        polling = asyncio.create_task(
            lease.acquire(pool.services, pool.bobs, node.node_id, request)
        )
        await asyncio.sleep(POLL_SECONDS)  # both have looked, and found nothing
        task = await pool.submit()
        following = task_stream.follow(pool.services, pool.alice, task.id, StreamPosition())
        saw_queued = await _told(following, TaskState.QUEUED)
        (grant,) = (await soon(polling)).grants
        assert grant.task_id == task.id
        assert await soon(_told(following, TaskState.ASSIGNED))
        await _run(pool, grant)
        assert await soon(_told(following, TaskState.SUCCEEDED))
        assert saw_queued
        await until(lambda: _is_told(pool))


async def test_a_question_is_answered_without_a_wake_up(pool: Pool) -> None:
    async with deaf(pool):
        task = await pool.submit()

        async def is_answered() -> bool:
            return (await explain(pool.services, pool.alice, task.id)).position == 1

        await until(is_answered)


async def _told(following: AsyncIterator[task_stream.TaskStreamItem], state: TaskState) -> bool:
    """Until the stream tells that the task has come so far."""
    async for item in following:
        if isinstance(item.event, FollowedState) and item.event.task.state is state:
            return True
    return False


async def _run(pool: Pool, grant: Grant) -> None:
    (node_id,) = [node for node in pool.machines if node is not None]
    await pool.report(node_id, Started(lease_of(grant)))
    await pool.report(node_id, done(grant))


async def _is_told(pool: Pool) -> bool:
    return not await pool.sql("SELECT count(*) FROM events WHERE place IS NULL")
