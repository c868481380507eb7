"""A task comes after others: it waits for them, is let go when all succeeded, or is called off."""

import asyncio

import pytest

from potluck.model.error import InvalidInput
from potluck.model.ids import TaskId
from potluck.model.task import EndReason, TaskState
from potluck.server.flow.housekeeping import expire
from potluck.server.flow.schedule import dependents
from potluck.server.flow.settle import cancel
from potluck.server.flow.submit import submit
from potluck.store.new_ids import new_task_id
from potluck.wire.consumer import TaskView
from tests.server.flow.pool import Pool, done, request
from tests.server.flow.schedule.arrays import place

pytestmark = pytest.mark.every_postgres


async def test_a_task_waits_until_all_before_it_have_succeeded(pool: Pool) -> None:
    first, second = await pool.submit(), await pool.submit()
    last = await pool.submit(after=(first.id, second.id))
    assert last.after == [first.id, second.id]
    assert last.waiting is not None and last.waiting.code == "dependency"
    assert "2 tasks" in last.waiting.sentence
    await _succeed(pool, first.id)
    assert "1 task " in (await _waits(pool, last))
    await _succeed(pool, second.id)
    assert (await pool.task(last.id)).waiting is None
    await _succeed(pool, last.id)
    await pool.check()


@pytest.mark.parametrize("end_kind", ["failed", "cancelled", "expired"])
async def test_dependents_of_an_unsuccessful_task_are_cancelled(pool: Pool, end_kind: str) -> None:
    first = await pool.submit(start_within_seconds=60.0)
    last = await pool.submit(after=(first.id,))
    await _end(pool, first.id, end_kind)
    assert (await pool.task(first.id)).state == end_kind
    assert await dependents.resolve_dependencies_once(pool.services, pool.leads) == 1
    after = await pool.task(last.id)
    assert (after.state, after.reason) == (TaskState.CANCELLED, EndReason.DEPENDENCY)
    assert first.id in after.detail
    assert await dependents.resolve_dependencies_once(pool.services, pool.leads) == 0
    await pool.check()


async def test_a_failure_at_the_start_of_a_chain_fails_all_of_it(pool: Pool) -> None:
    await _chain_falls(pool, 30)


@pytest.mark.long
async def test_a_chain_of_a_thousand_falls(pool: Pool) -> None:
    await _chain_falls(pool, 1_000)


async def _chain_falls(pool: Pool, length: int) -> None:
    first = previous = (await pool.submit()).id
    for _ in range(length):
        previous = (await pool.submit(after=(previous,))).id
    await cancel.cancel(pool.services, pool.alice, first)
    assert await dependents.resolve_dependencies_once(pool.services, pool.leads) == length
    count = "SELECT count(*) FROM tasks WHERE state = 'cancelled' AND reason = 'dependency'"
    assert await pool.sql(count) == length
    await pool.check()


async def test_a_thousand_wait_for_one(pool: Pool) -> None:
    """Let go in one batch each: the rows are counted, not the round trips."""
    first = await pool.submit()
    await pool.submit(after=(first.id,))
    await _copy_last(pool, first.id, 999)
    await _succeed(pool, first.id)
    assert await pool.sql("SELECT count(*) FROM tasks WHERE waits_for > 0") == 0
    assert await pool.sql("SELECT count(*) FROM dependencies") == 0
    assert await pool.sql("SELECT count(*) FROM ended_tasks") == 0
    await pool.check()


async def test_the_end_of_a_task_writes_one_row_for_all_dependents(pool: Pool) -> None:
    """The end holds the task, its node and its devices, and takes no longer for a million."""
    first = await pool.submit()
    await pool.submit(after=(first.id,))
    await _copy_last(pool, first.id, 1500)
    waiting = "SELECT array_agg(xmin::text ORDER BY task_id) FROM dependencies"
    before = await pool.sql(waiting)
    await _end(pool, first.id, "succeeded")
    assert await pool.sql(waiting) == before
    assert await pool.sql("SELECT count(*) FROM ended_tasks") == 1
    assert await dependents.resolve_dependencies_once(pool.services, pool.leads) == 1000
    assert await dependents.resolve_dependencies_once(pool.services, pool.leads) == 501
    assert await dependents.resolve_dependencies_once(pool.services, pool.leads) == 0
    assert await pool.sql("SELECT count(*) FROM ended_tasks") == 0
    await pool.check()


async def _copy_last(pool: Pool, after_id: TaskId, count: int) -> None:
    """Waiting tasks by the hundred, and their events, as `submit` writes them."""
    ids = [new_task_id() for _ in range(count)]
    columns = (
        "account_id, name, kind, sealed_spec, requirements, limits, priority, max_attempts,"
        " after_ids, waits_for, request_hash"
    )
    await pool.sql(
        f"INSERT INTO tasks (id, {columns})"
        f" SELECT unnest($1::text[]), {columns} FROM tasks WHERE waits_for = 1",
        ids,
    )
    await pool.sql("INSERT INTO dependencies SELECT unnest($1::text[]), $2", ids, after_id)
    await pool.sql(
        "INSERT INTO events (account_id, task_id, kind, data)"
        " SELECT $1, unnest($2::text[]), 'task.queued', '{\"state\": \"queued\"}'",
        pool.alice,
        ids,
    )


async def test_a_diamond_is_let_go_when_both_sides_are_done(pool: Pool) -> None:
    top = await pool.submit()
    left_task, right = await pool.submit(after=(top.id,)), await pool.submit(after=(top.id,))
    bottom = await pool.submit(after=(left_task.id, right.id))
    for task in (top, left_task, right):
        assert (await pool.task(bottom.id)).waiting is not None
        await _succeed(pool, task.id)
    assert (await pool.task(bottom.id)).waiting is None
    await pool.check()


async def test_a_diamond_falls_once(pool: Pool) -> None:
    top = await pool.submit()
    left_task, right = await pool.submit(after=(top.id,)), await pool.submit(after=(top.id,))
    bottom = await pool.submit(after=(left_task.id, right.id))
    await cancel.cancel(pool.services, pool.alice, top.id)
    await dependents.resolve_dependencies_once(pool.services, pool.leads)
    assert (await pool.task(bottom.id)).reason is EndReason.DEPENDENCY
    finished = "SELECT count(*) FROM events WHERE task_id = $1 AND kind = 'task.finished'"
    assert await pool.sql(finished, bottom.id) == 1
    await pool.check()


async def test_ended_dependencies_are_not_waited_for(pool: Pool) -> None:
    good, bad = await pool.submit(), await pool.submit()
    await _succeed(pool, good.id)
    await cancel.cancel(pool.services, pool.alice, bad.id)
    assert (await pool.submit(after=(good.id,))).waiting is None
    cancelled = await pool.submit(after=(good.id, bad.id))
    assert (cancelled.state, cancelled.reason) == (TaskState.CANCELLED, EndReason.DEPENDENCY)
    await pool.check()


async def test_a_task_that_ends_at_the_very_moment_of_the_submission_is_not_missed(
    pool: Pool,
) -> None:
    """Cancelled, expired and finished while others are submitted to come after it."""
    for end_kind in ("cancelled", "expired", "succeeded") * 4:
        first = await pool.submit(start_within_seconds=60.0)
        ends = asyncio.ensure_future(_end(pool, first.id, end_kind))
        waiting = await asyncio.gather(*(pool.submit(after=(first.id,)) for _ in range(6)))
        await ends
        await dependents.resolve_dependencies_once(pool.services, pool.leads)
        for task in waiting:
            after = await pool.task(task.id)
            expected = TaskState.QUEUED if end_kind == "succeeded" else TaskState.CANCELLED
            assert (after.state, after.waiting) == (expected, None), end_kind
            if end_kind == "succeeded":
                await cancel.cancel(pool.services, pool.alice, task.id)
    await pool.check()


async def test_others_tasks_and_no_tasks_are_refused_alike(pool: Pool) -> None:
    other_task = await submit.submit(pool.services, pool.bob, request(), None)
    sentences = []
    for task_id in (other_task.id, new_task_id()):
        with pytest.raises(InvalidInput) as error_info:
            await pool.submit(after=(task_id,))
        sentences.append(error_info.value.detail.replace(task_id, "it"))
    assert sentences[0] == sentences[1]
    own_task = await pool.submit()
    with pytest.raises(InvalidInput, match="twice"):
        await pool.submit(after=(own_task.id, own_task.id))


async def test_a_waiting_dependent_can_be_cancelled_and_can_expire(pool: Pool) -> None:
    first = await pool.submit()
    cancelled = await pool.submit(after=(first.id,))
    late_task = await pool.submit(after=(first.id,), start_within_seconds=60.0)
    assert (await cancel.cancel(pool.services, pool.alice, cancelled.id)).state.is_final
    await pool.sql("UPDATE tasks SET start_before = now() WHERE id = $1", late_task.id)
    assert await expire.expire_once(pool.services, pool.leads) == 1
    await _succeed(pool, first.id)
    assert (await pool.task(cancelled.id)).state is TaskState.CANCELLED
    assert (await pool.task(late_task.id)).state is TaskState.EXPIRED
    assert await pool.sql("SELECT count(*) FROM dependencies") == 0
    await pool.check()


async def test_the_same_key_waits_once(pool: Pool) -> None:
    first = await pool.submit()
    twins = await asyncio.gather(*(pool.submit(key="k", after=(first.id,)) for _ in range(8)))
    assert len({twin.id for twin in twins}) == 1
    assert await pool.sql("SELECT count(*) FROM dependencies") == 1
    await pool.check()


async def test_an_old_leader_lets_nobody_go(pool: Pool) -> None:
    first = await pool.submit()
    last = await pool.submit(after=(first.id,))
    await cancel.cancel(pool.services, pool.alice, first.id)
    await pool.sql("UPDATE leader SET term = term + 1")
    assert await dependents.resolve_dependencies_once(pool.services, pool.leads) == 0
    assert (await pool.task(last.id)).state is TaskState.QUEUED


async def _waits(pool: Pool, task: TaskView) -> str:
    waiting = (await pool.task(task.id)).waiting
    assert waiting is not None
    return waiting.sentence


async def _succeed(pool: Pool, task_id: TaskId) -> None:
    await _end(pool, task_id, "succeeded")
    await dependents.resolve_dependencies_once(pool.services, pool.leads)


async def _end(pool: Pool, task_id: TaskId, end_kind: str) -> None:
    if end_kind == "cancelled":
        await cancel.cancel(pool.services, pool.alice, task_id)
        return
    if end_kind == "expired":
        await pool.sql("UPDATE tasks SET start_before = now() WHERE id = $1", task_id)
        assert await expire.expire_once(pool.services, pool.leads) == 1
        return
    node = await pool.offer()
    assert await place(pool, node, task_id)
    (grant,) = await pool.fetch(node.node_id)
    reason = EndReason.COMPLETED if end_kind == "succeeded" else EndReason.EXIT_STATUS
    exit_code = 0 if end_kind == "succeeded" else 1
    assert await pool.report(node.node_id, done(grant, reason, exit_code=exit_code)) == ["accepted"]
