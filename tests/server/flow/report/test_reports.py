"""Many reports in one call: taken together, answered one by one, and nobody fails for another."""

import asyncio
import contextlib
from typing import Any

import pytest
from msgspec.structs import replace

from potluck.model.error import Conflict
from potluck.model.ids import NodeId, TaskId
from potluck.model.task import EndReason, TaskState
from potluck.server.flow.housekeeping import expire
from potluck.server.flow.report import request_work
from potluck.server.flow.report.request_work import MOST_ALONE
from potluck.server.flow.settle import cancel
from potluck.wire.provider import Grant, Preparing, Report, Started
from tests.server.flow.pool import Pool, done, lease_of
from tests.server.flow.schedule.arrays import give, succeeded

TASKS = 12


async def test_starts_and_ends_of_many_are_a_transaction_each(pool: Pool) -> None:
    node_id, grants = await _busy_node(pool)
    node_reports = [
        report for grant in grants for report in (Started(lease_of(grant)), done(grant))
    ]
    assert await pool.report(node_id, *node_reports) == ["accepted"] * (2 * TASKS)
    states = "SELECT count(*) FROM tasks WHERE state = 'succeeded'"
    assert await pool.sql(states) == TASKS
    assert await pool.sql("SELECT count(DISTINCT xmin::text) FROM attempts") == 1
    count_transactions = (
        "SELECT count(DISTINCT xmin::text) FROM events WHERE kind = 'attempt.running'"
    )
    assert await pool.sql(count_transactions) == 1
    await pool.check()


async def test_each_report_has_its_answer_in_order(pool: Pool) -> None:
    """Forged, somebody else's, odd, cancelled, repeated, different, lost: among good ones."""
    node_id, grants = await _busy_node(pool)
    other = await pool.offer()
    good, forged, odd, cancelled_grant, repeated, changed, lost_grant, *other_grants = grants
    await cancel.cancel(pool.services, pool.alice, cancelled_grant.task_id)
    assert await pool.report(node_id, done(repeated), done(changed)) == ["accepted"] * 2
    await _lose(pool, lost_grant)
    codes = await pool.report(
        node_id,
        Preparing(lease_of(good)),
        done(replace(forged, token="x" * 43)),
        done(odd, EndReason.POISON),
        Started(lease_of(good)),
        done(cancelled_grant),
        done(repeated),
        done(changed, EndReason.EXIT_STATUS, exit_code=1),
        done(lost_grant),
        done(good),
        done(good),
        *(done(grant) for grant in other_grants),
    )
    assert codes == [
        "accepted",
        "stale_lease",
        "invalid_input",
        "accepted",
        "stale_lease",
        "accepted",
        "conflict",
        "accepted",
        "accepted",
        "accepted",
        *["accepted"] * len(other_grants),
    ]
    assert await pool.report(other.node_id, done(forged), done(odd)) == ["stale_lease"] * 2
    assert (await pool.task(lost_grant.task_id)).state is TaskState.SUCCEEDED
    await pool.check()


async def test_one_request_does_a_bounded_amount_of_work(pool: Pool) -> None:
    """The rest is to be sent again, and nothing overtakes it."""
    node_id, (cancelled_grant, good, *_) = await _busy_node(pool)
    await cancel.cancel(pool.services, pool.alice, cancelled_grant.task_id)
    stale = [Started(lease_of(cancelled_grant))] * 100
    later = ["unavailable"] * (100 - MOST_ALONE)
    assert await pool.report(node_id, *stale) == ["stale_lease"] * MOST_ALONE + later
    assert (await pool.report(node_id, *stale, done(good)))[-1] == "unavailable"
    assert await pool.report(node_id, done(good)) == ["accepted"]
    await pool.check()


async def test_reports_that_are_repeated_or_prepare_need_no_transaction_each(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_work, "MOST_ALONE", 1)
    node_id, grants = await _busy_node(pool)
    preparing = [Preparing(lease_of(grant)) for grant in grants]
    assert await pool.report(node_id, *preparing) == ["accepted"] * TASKS
    assert await pool.sql("SELECT count(*) FROM attempts WHERE state = 'preparing'") == TASKS
    for _ in range(2):
        assert await pool.report(node_id, *map(done, grants)) == ["accepted"] * TASKS
    ends = [done(grant, EndReason.EXIT_STATUS, exit_code=1) for grant in grants]
    assert await pool.report(node_id, *ends) == ["conflict", *["unavailable"] * (TASKS - 1)]
    await pool.check()


async def test_parts_of_an_array_count_by_their_outcomes(pool: Pool) -> None:
    node = await pool.offer()
    task = await pool.submit(items=10_000)
    await pool.plan()
    (grant,) = await pool.fetch(node.node_id)
    parts = [succeeded(grant, item) for item in range(80)]
    codes = await pool.report(node.node_id, Started(lease_of(grant)), *parts)
    assert 20 < codes.count("accepted") < 60
    assert codes == sorted(codes), "the first ones"
    assert (await pool.task(task.id)).state is TaskState.RUNNING
    await pool.check()


async def test_a_report_that_cannot_be_written_fails_alone(pool: Pool) -> None:
    node_id, grants = await _busy_node(pool)
    bad = grants[3]
    await pool.sql(
        "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql"
        " AS 'BEGIN RAISE division_by_zero; END'"
    )
    await pool.sql(
        "CREATE TRIGGER broken BEFORE UPDATE ON tasks FOR EACH ROW"
        f" WHEN (NEW.id = '{bad.task_id}') EXECUTE FUNCTION broken()"
    )
    codes = await asyncio.gather(
        pool.report(node_id, *(done(grant) for grant in grants)), return_exceptions=True
    )
    assert isinstance(codes[0], Exception), "the caller is told that something is wrong"
    assert (await pool.task(grants[0].task_id)).state is TaskState.SUCCEEDED
    await pool.sql("DROP TRIGGER broken ON tasks")
    assert await pool.report(node_id, *(done(grant) for grant in grants)) == ["accepted"] * TASKS
    await pool.check()


async def test_ranges_of_one_array_end_one_after_the_other(pool: Pool) -> None:
    """Two ranges on one node: each end must see the other's, also if both come in one call."""
    node = await pool.offer(devices=2)
    task = await pool.submit(items=4)
    first = await give(pool, node, task.id, 0, 2)
    await pool.plan()
    (second,) = [grant for grant in await pool.fetch(node.node_id) if grant != first]
    assert second.task_id == task.id
    items = [item for part in second.items for item in range(part.start, part.end)]
    await pool.report(node.node_id, Started(lease_of(second)))
    await pool.report(
        node.node_id, succeeded(first, 0, 1), succeeded(second, *items), done(first), done(second)
    )
    after = await pool.task(task.id)
    assert after.items is not None and after.items.succeeded == 2 + len(items)
    assert after.state is (TaskState.SUCCEEDED if len(items) == 2 else TaskState.QUEUED)
    await pool.check()


async def test_all_reports_of_a_range_are_one_transaction_and_one_history(pool: Pool) -> None:
    """Told at once as if it had been told bit by bit; what is left of a range goes back."""
    histories = []
    for is_whole in (True, False):
        node = await pool.offer()
        task = await pool.submit(items=4)
        grant = await give(pool, node, task.id, 0, 4)
        bits: list[Report] = [
            Started(lease_of(grant)),
            succeeded(grant, 0),
            succeeded(grant, 1, 2),
            done(grant, EndReason.NODE_LEFT),
        ]
        for batch in [bits] if is_whole else [[bit] for bit in bits]:
            assert set(await pool.report(node.node_id, *batch)) == {"accepted"}
        after = await pool.task(task.id)
        assert after.items is not None
        kinds = "SELECT array_agg(kind ORDER BY id) FROM events WHERE task_id = $1"
        histories.append((after.state, after.items, await pool.sql(kinds, task.id)))
        assert (after.items.succeeded, after.items.pending) == (3, 1)
        await cancel.cancel(pool.services, pool.alice, task.id)
        await pool.check()
    assert histories[0] == histories[1]


async def test_batches_of_two_nodes_and_cancellations_do_not_wait_in_a_circle(pool: Pool) -> None:
    await pool.give(pool.alice, 10**12)
    nodes = [await _busy_node(pool, price_micro_per_hour=1000) for _ in range(2)]
    tasks = [grant.task_id for _, grants in nodes for grant in grants]
    await asyncio.gather(
        *(_run(pool, node_id, grants) for node_id, grants in nodes),
        *(_cancel(pool, task_id) for task_id in tasks[::3]),
    )
    for task_id in tasks:
        assert (await pool.task(task_id)).state.is_final
    await pool.check()


async def _busy_node(pool: Pool, **changes: Any) -> tuple[NodeId, list[Grant]]:
    node = await pool.offer(devices=TASKS, cores=64, **changes)
    for _ in range(TASKS):
        await pool.submit(run_seconds=10.0)
    await pool.plan()
    grants = await pool.fetch(node.node_id)
    assert len(grants) == TASKS
    return node.node_id, grants


async def _run(pool: Pool, node_id: NodeId, grants: list[Grant]) -> None:
    await pool.report(node_id, *(Started(lease_of(grant)) for grant in reversed(grants)))
    await pool.report(node_id, *(done(grant) for grant in grants))


async def _cancel(pool: Pool, task_id: TaskId) -> None:
    with contextlib.suppress(Conflict):  # it may have ended already
        await cancel.cancel(pool.services, pool.alice, task_id)


async def _lose(pool: Pool, grant: Grant) -> None:
    expire_lease = "UPDATE attempts SET lease_expires_at = now() WHERE id = $1"
    await pool.sql(expire_lease, grant.attempt_id)
    assert await expire.expire_once(pool.services, pool.leads) == 1


async def test_a_nodes_ends_are_counted_for_and_against_it(pool: Pool) -> None:
    """Outcomes for it, losses against it; not what never reached it, or the server's silence."""
    node_id, grants = await _busy_node(pool)
    good, bad, restarted, left_grant, silent, cancelled_grant, lost_grant, *_ = grants
    await pool.report(
        node_id,
        done(good),
        done(bad, EndReason.EXIT_STATUS, exit_code=1),
        done(restarted, EndReason.NODE_RESTARTED),
        done(left_grant, EndReason.NODE_LEFT),
        done(silent, EndReason.SILENCE),
    )
    await cancel.cancel(pool.services, pool.alice, cancelled_grant.task_id)
    await _lose(pool, lost_grant)
    assert await _counted(pool, node_id) == [2, 3]
    await pool.beat(node_id, lease_of(lost_grant))
    assert await _counted(pool, node_id) == [2, 2], "it was not lost after all"
    await pool.check()


async def _counted(pool: Pool, node_id: NodeId) -> list[int]:
    counts = "SELECT ARRAY[finished_attempts, lost_attempts] FROM nodes WHERE id = $1"
    node_counts: list[int] = await pool.sql(counts, node_id)
    return node_counts
