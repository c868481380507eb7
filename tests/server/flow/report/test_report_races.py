"""What happens when several things happen at once: nobody waits in a circle, nothing is lost."""

import asyncio
import random

from potluck.model.error import Conflict
from potluck.model.ids import NodeId, TaskId
from potluck.model.task import EndReason, TaskState
from potluck.server.flow.execute import attempt_log
from potluck.server.flow.settle import cancel
from potluck.wire.provider import Grant, Preparing, Started
from tests.server.flow.pool import Pool, done, lease_of

NODES = 2
TASKS = 150


async def test_concurrent_reports_of_all_kinds_keep_every_invariant(pool: Pool) -> None:
    """Plans, polls, beats, reports and cancellations of the same rows, at a price.

    A deadlock would be an error here: one of the two is told that the database is not available.
    """
    await pool.give(pool.alice, 10**12)
    nodes = [(await pool.offer(devices=4, price_micro_per_hour=1000)).node_id for _ in range(NODES)]
    tasks = [(await pool.submit(run_seconds=60.0)).id for _ in range(TASKS)]
    finished: set[TaskId] = set()
    calls = [
        _planner(pool, finished),
        *(_provider(pool, node_id, finished) for node_id in nodes),
        _canceller(pool, tasks, finished),
    ]
    await asyncio.wait_for(asyncio.gather(*calls), 60)
    await pool.check()


async def _planner(pool: Pool, finished: set[TaskId]) -> None:
    while len(finished) < TASKS:
        await pool.plan()


async def _canceller(pool: Pool, tasks: list[TaskId], finished: set[TaskId]) -> None:
    """Some while they wait, most while a node is about to tell that they run or have ended."""
    for task_id in random.Random(7).sample(tasks, TASKS // 2):
        while (await pool.task(task_id)).state is TaskState.QUEUED and random.random() < 0.9:
            await asyncio.sleep(0)
        try:
            await cancel.cancel(pool.services, pool.alice, task_id)
        except Conflict:
            continue  # it had already ended
        finished.add(task_id)


async def _provider(pool: Pool, node_id: NodeId, finished: set[TaskId]) -> None:
    while len(finished) < TASKS:
        grants = await pool.fetch(node_id)
        held_lease = [lease_of(grant) for grant in grants]
        await asyncio.gather(
            *(_run(pool, node_id, grant, finished) for grant in grants),
            *(pool.beat(node_id, *held_lease) for _ in range(4)),
        )


async def _run(pool: Pool, node_id: NodeId, grant: Grant, finished: set[TaskId]) -> None:
    await pool.report(node_id, Preparing(lease_of(grant)))
    await pool.report(node_id, Started(lease_of(grant)))
    await pool.report(node_id, done(grant))
    finished.add(grant.task_id)


async def test_the_same_chunk_twice_at_once_is_one_chunk(pool: Pool) -> None:
    """A retry after a time-out meets the first try, and may carry more than that did."""
    node_id, grant = await pool.started()
    held_lease = lease_of(grant)
    counts = await asyncio.gather(
        pool.say(node_id, held_lease, 0, "a", "b", "c"),
        pool.say(node_id, held_lease, 0, "a"),
        pool.say(node_id, held_lease, 0, "a", "b"),
        pool.say(node_id, held_lease, 0, "a", "b", "c", "d"),
    )
    have = max(counts)
    assert await pool.say(node_id, held_lease, 0, "a", "b", "c", "d", "e") == 5
    for offset in range(6):
        page = await attempt_log.read_log(pool.services, pool.alice, grant.task_id, None, offset)
        assert "".join(piece.text for piece in page.pieces) == "abcde"[offset:], (offset, have)
    await pool.report(node_id, done(grant))
    assert (await attempt_log.read_log(pool.services, pool.alice, grant.task_id, None, 5)).complete


async def test_two_cancellations_and_a_report_agree(pool: Pool) -> None:
    node_id, grant = await pool.started()
    outcomes = await asyncio.gather(
        cancel.cancel(pool.services, pool.alice, grant.task_id),
        pool.report(node_id, done(grant)),
        cancel.cancel(pool.services, pool.alice, grant.task_id),
        pool.report(node_id, done(grant, EndReason.EXIT_STATUS, exit_code=1)),
        return_exceptions=True,
    )
    assert all(
        isinstance(outcome, Conflict) or not isinstance(outcome, Exception) for outcome in outcomes
    )
    assert (await pool.task(grant.task_id)).state.is_final
    await pool.check()
