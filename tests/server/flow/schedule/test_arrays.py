"""An array is one task of many items: each gets one outcome that counts, whatever happens."""

from datetime import timedelta

import pytest

from potluck.decide.arrays.items import MOST_PIECES
from potluck.model.lease import AttemptState
from potluck.model.task import GIB, EndReason, ItemRange, TaskState
from potluck.server.flow.housekeeping import expire
from potluck.server.flow.settle import cancel
from potluck.store.attempts import attempt_list
from potluck.store.tasks import item_failures, tasks
from potluck.wire.consumer import FailedItem, ItemCounts
from potluck.wire.provider import Grant, ItemOutcome, ItemsDone, NodeRegistered, Started
from tests.server.flow.pool import Pool, done, lease_of, used
from tests.server.flow.schedule.arrays import assign, failed, give, succeeded

LONG_AGO = "{} = now() - interval '10 seconds'".format


async def test_a_range_reports_in_parts_and_the_array_succeeds(pool: Pool) -> None:
    node, task = await pool.offer(), await pool.submit(items=5)
    assert task.items == ItemCounts(5, 5, 0, 0)
    first = await give(pool, node, task.id, 0, 3)
    assert (first.items, first.items_total) == ([ItemRange(0, 3)], 5)
    assert (await pool.task(task.id)).items == ItemCounts(5, 2, 0, 0)
    assert await pool.report(node.node_id, succeeded(first, 0), succeeded(first, 2, 1)) == [
        "accepted",
        "accepted",
    ]
    assert await pool.report(node.node_id, done(first)) == ["accepted"]
    between = await pool.task(task.id)
    assert (between.state, between.items) == (TaskState.QUEUED, ItemCounts(5, 2, 3, 0))
    second = await give(pool, node, task.id, 3, 5)
    await pool.report(node.node_id, succeeded(second, 3, 4), done(second))
    after = await pool.task(task.id)
    assert (after.state, after.reason) == (TaskState.SUCCEEDED, EndReason.COMPLETED)
    assert [attempt.items for attempt in after.attempts] == [ItemRange(0, 3), ItemRange(3, 5)]
    await pool.check()


async def test_a_range_is_granted_once(pool: Pool) -> None:
    first_node, other = await pool.offer(), await pool.offer()
    task = await pool.submit(items=10)
    assert await assign(pool, first_node, task.id, 0, 6)
    assert not await assign(pool, other, task.id, 5, 8)
    assert await assign(pool, other, task.id, 6, 10)
    await pool.check()


async def test_items_that_come_with_the_word_that_they_were_started_took_their_time(
    pool: Pool,
) -> None:
    """As after an outage: how long the next range may be goes by it."""
    node, task = await pool.offer(), await pool.submit(items=4)
    assert await assign(pool, node, task.id, 0, 2)
    (grant,) = await pool.fetch(node.node_id)
    await pool.sql(f"UPDATE attempts SET {LONG_AGO('fetched_at')}")
    node_reports = Started(lease_of(grant)), succeeded(grant, 0, 1, seconds=2.0), done(grant)
    assert await pool.report(node.node_id, *node_reports) == ["accepted"] * 3
    assert await pool.sql("SELECT items_seconds FROM tasks") == 4.0
    assert await pool.sql("SELECT items_seconds FROM attempts") == 4.0


async def test_an_item_counts_once(pool: Pool) -> None:
    """Repeated, told twice in one report, of somebody else's range, or changed afterwards."""
    first_node, other = await pool.offer(), await pool.offer()
    task = await pool.submit(items=10)
    own_grant, other_grant = (
        await give(pool, first_node, task.id, 0, 5),
        await give(pool, other, task.id, 5, 9),
    )
    twice = ItemsDone(
        lease_of(own_grant),
        (
            ItemOutcome(0, EndReason.COMPLETED, 1.0, 0),
            ItemOutcome(0, EndReason.EXIT_STATUS, 1.0, 1),
            ItemOutcome(7, EndReason.COMPLETED, 1.0, 0),
            ItemOutcome(9, EndReason.COMPLETED, 1.0, 0),
        ),
    )
    codes = await pool.report(
        first_node.node_id, twice, twice, failed(own_grant, 0, 1), succeeded(own_grant, 1)
    )
    assert codes == ["accepted"] * 4
    assert (await pool.task(task.id)).items == ItemCounts(10, 1, 1, 1)
    assert await pool.report(other.node_id, succeeded(own_grant, 2)) == ["stale_lease"]
    await pool.report(other.node_id, succeeded(other_grant, 7))
    assert (await pool.task(task.id)).items == ItemCounts(10, 1, 2, 1)
    await pool.check()


async def test_a_failed_item_is_tried_again_and_fails_nobody_else(pool: Pool) -> None:
    node, task = await pool.offer(), await pool.submit(items=3, max_attempts=2)
    first = await give(pool, node, task.id, 0, 3)
    await pool.report(node.node_id, failed(first, 1), succeeded(first, 0, 2), done(first))
    between = await pool.task(task.id)
    assert (between.state, between.items) == (TaskState.QUEUED, ItemCounts(3, 1, 2, 0))
    second_grant = await give(pool, node, task.id, 1, 2)
    await pool.report(node.node_id, failed(second_grant, 1), done(second_grant))
    after = await pool.task(task.id)
    assert (after.state, after.reason) == (TaskState.FAILED, EndReason.ITEMS_FAILED)
    assert (after.detail, after.items) == ("1 of 3 items failed.", ItemCounts(3, 0, 2, 1))
    async with pool.services.database.transaction() as connection:
        (bad,) = await item_failures.page(connection, pool.services.vault, task.id, -1, 10)
    assert bad == FailedItem(
        1, 2, True, second_grant.attempt_id, EndReason.EXIT_STATUS, 1, "no luck"
    )
    await pool.check()


@pytest.mark.parametrize(("allowed", "state"), [(1, "failed"), (2, "succeeded")])
async def test_as_many_items_may_fail_as_are_allowed(pool: Pool, allowed: int, state: str) -> None:
    node, task = await pool.offer(), await pool.submit(items=4, allow_failures=allowed)
    grant = await give(pool, node, task.id, 0, 4)
    await pool.report(node.node_id, failed(grant, 0, 3), succeeded(grant, 1, 2), done(grant))
    assert (await pool.task(task.id)).state == state
    await pool.check()


async def test_finished_items_of_a_lost_range_are_kept_and_paid(pool: Pool) -> None:
    await pool.give(pool.alice, 10**9)
    price = 3_600_000_000  # a credit for a second
    node, other = await pool.offer(price_micro_per_hour=price), await pool.offer()
    task = await pool.submit(items=6, run_seconds=100.0)
    grant = await give(pool, node, task.id, 0, 4, price)
    await pool.sql(f"UPDATE attempts SET {LONG_AGO('fetched_at')}, {LONG_AGO('started_at')}")
    await pool.report(node.node_id, succeeded(grant, 0, 1, seconds=2.0))
    await _run_out(pool)
    assert await expire.expire_once(pool.services, pool.leads) == 1
    task_view = await pool.task(task.id)
    assert (task_view.state, task_view.items) == (TaskState.QUEUED, ItemCounts(6, 4, 2, 0))
    assert task_view.charge_micro == 4_000_000
    assert (await pool.balance(pool.alice)).held_micro == 0
    await pool.check()
    second_grant = await give(pool, other, task.id, 2, 6)
    assert await pool.report(node.node_id, succeeded(grant, 2)) == ["stale_lease"]
    await pool.report(other.node_id, succeeded(second_grant, 2, 3, 4, 5), done(second_grant))
    assert (await pool.task(task.id)).state is TaskState.SUCCEEDED
    await pool.check()


async def test_a_range_that_was_taken_back_is_not_paid_twice(pool: Pool) -> None:
    await pool.give(pool.alice, 10**9)
    price = 3_600_000_000
    node = await pool.offer(price_micro_per_hour=price)
    task = await pool.submit(items=4, run_seconds=100.0)
    grant = await give(pool, node, task.id, 0, 4, price)
    await pool.sql(f"UPDATE attempts SET {LONG_AGO('fetched_at')}, {LONG_AGO('started_at')}")
    await pool.report(node.node_id, succeeded(grant, 0, 1, seconds=2.0))
    await _run_out(pool)
    await expire.expire_once(pool.services, pool.leads)
    assert await pool.report(
        node.node_id, succeeded(grant, 2, 3, seconds=2.0), done(grant, usage=used(8.0))
    ) == ["accepted", "accepted"]
    after = await pool.task(task.id)
    assert (after.state, after.charge_micro) == (TaskState.SUCCEEDED, 8_000_000)
    await pool.check()


async def test_an_item_whose_attempts_lose_three_nodes_fails_and_the_rest_continues(
    pool: Pool,
) -> None:
    nodes = [await pool.offer() for _ in range(4)]
    task = await pool.submit(items=5, allow_failures=1)
    for node in nodes[:3]:
        grant = await give(pool, node, task.id, 1, 3)
        assert await pool.report(node.node_id, done(grant, EndReason.NODE_RESTARTED)) == [
            "accepted"
        ]
    between = await pool.task(task.id)
    assert (between.state, between.items) == (TaskState.QUEUED, ItemCounts(5, 4, 0, 1))
    first = await give(pool, nodes[3], task.id, 0, 1)
    await pool.report(nodes[3].node_id, succeeded(first, 0), done(first))
    last = await give(pool, nodes[3], task.id, 2, 5)
    await pool.report(nodes[3].node_id, succeeded(last, 2, 3, 4), done(last))
    assert (await pool.task(task.id)).state is TaskState.SUCCEEDED
    async with pool.services.database.transaction() as connection:
        (poison,) = await item_failures.page(connection, pool.services.vault, task.id, -1, 10)
    assert (poison.item, poison.is_final, poison.reason) == (1, True, EndReason.POISON)
    await pool.check()


async def test_lost_ranges_of_many_nodes_do_not_poison_the_array(pool: Pool) -> None:
    nodes = [await pool.offer() for _ in range(7)]
    task = await pool.submit(items=70)
    grants = [await give(pool, node, task.id, 10 * n, 10 * n + 10) for n, node in enumerate(nodes)]
    for node, grant in zip(nodes, grants, strict=True):
        await pool.report(node.node_id, done(grant, EndReason.NODE_RESTARTED))
    after = await pool.task(task.id)
    assert (after.state, after.items) == (TaskState.QUEUED, ItemCounts(70, 70, 0, 0))
    await pool.check()


async def test_a_node_that_lost_a_range_serves_the_array_again(pool: Pool) -> None:
    nodes = [await pool.offer() for _ in range(2)]
    task = await pool.submit(items=40)
    grant = await give(pool, nodes[0], task.id, 0, 10)
    await pool.report(nodes[0].node_id, done(grant, EndReason.NODE_RESTARTED))
    await pool.plan()
    live = "SELECT array_agg(DISTINCT node_id) FROM attempts WHERE finished_at IS NULL"
    assert set(await pool.sql(live)) == {node.node_id for node in nodes}
    await pool.check()


async def test_a_range_that_can_not_be_prepared_fails_the_array_unless_others_get_on(
    pool: Pool,
) -> None:
    first_node, other = await pool.offer(), await pool.offer()
    hopeless = await pool.submit(items=4)
    grant = await give(pool, first_node, hopeless.id, 0, 2)
    await pool.report(first_node.node_id, done(grant, EndReason.PREPARE_FAILED))
    failed_task = await pool.task(hopeless.id)
    assert (failed_task.state, failed_task.reason) == (TaskState.FAILED, EndReason.PREPARE_FAILED)
    task = await pool.submit(items=4)
    fine = await give(pool, first_node, task.id, 0, 2)
    broken = await give(pool, other, task.id, 2, 4)
    await pool.report(first_node.node_id, succeeded(fine, 0))
    await pool.report(other.node_id, done(broken, EndReason.PREPARE_FAILED))
    between = await pool.task(task.id)
    assert (between.state, between.items) == (TaskState.RUNNING, ItemCounts(4, 2, 1, 0))
    await pool.report(first_node.node_id, succeeded(fine, 1), done(fine))
    second_grant = await give(pool, first_node, task.id, 2, 4)
    await pool.report(first_node.node_id, succeeded(second_grant, 2, 3), done(second_grant))
    assert (await pool.task(task.id)).state is TaskState.SUCCEEDED
    await pool.check()


async def test_ranges_that_can_not_be_prepared_end_the_array_though_others_are_at_work(
    pool: Pool,
) -> None:
    """Else one node after the other tries it again, for ever."""
    nodes = [await pool.offer() for _ in range(2)]
    task = await pool.submit(items=10, max_attempts=2)
    live: list[tuple[NodeRegistered, Grant]] = []
    for _ in range(3):
        await pool.sql("UPDATE tasks SET not_before = NULL")
        await pool.plan()
        held_leases = [lease_of(grant) for _, grant in live]
        for node in nodes:
            live += [(node, grant) for grant in await pool.fetch(node.node_id, *held_leases)]
        failing_node, grant = live.pop(0)
        await pool.report(failing_node.node_id, done(grant, EndReason.PREPARE_FAILED))
    after = await pool.task(task.id)
    assert (after.state, after.reason) == (TaskState.FAILED, EndReason.PREPARE_FAILED)
    assert len(after.attempts) == 3 and not live
    await pool.check()


async def test_a_range_that_gets_nowhere_is_lost_though_its_node_is_lively(pool: Pool) -> None:
    node, task = await pool.offer(), await pool.submit(items=1000, run_seconds=60.0)
    grant = await give(pool, node, task.id, 0, 1000)
    overrun = pool.services.settings.overrun_seconds
    expire_leases = (
        "UPDATE attempts SET lease_expires_at = now(), started_at = now() - $1::interval"
    )
    await pool.sql(expire_leases, timedelta(seconds=120 + overrun))
    await pool.report(node.node_id, succeeded(grant, 0))
    await pool.beat(node.node_id, lease_of(grant))
    assert await expire.expire_once(pool.services, pool.leads) == 0, "the clock began anew"
    await pool.sql("UPDATE attempts SET lease_expires_at = now(), progressed_at = started_at")
    await pool.beat(node.node_id, lease_of(grant))
    assert await expire.expire_once(pool.services, pool.leads) == 1
    assert (await pool.task(task.id)).items == ItemCounts(1000, 999, 1, 0)
    await pool.check()


async def test_a_heavily_fragmented_array_stays_fast_and_is_not_retried(pool: Pool) -> None:
    """As after a script that fails on every second item."""
    node, task = await pool.offer(), await pool.submit(items=40_000, max_attempts=2)
    grant = await give(pool, node, task.id, 39_000, 40_000)
    scattered = """UPDATE tasks SET items_succeeded = 39000 - $1, pending = (
        SELECT range_agg(int4range(item, item + 1)) FROM generate_series(0, 2 * ($1 - 1), 2) AS item
    )"""
    await pool.sql(scattered, MOST_PIECES - 1)
    await pool.report(node.node_id, failed(grant, 39_100), failed(grant, 39_200))
    counts = (await pool.task(task.id)).items
    assert counts is not None and (counts.pending, counts.failed) == (MOST_PIECES, 1)
    async with pool.services.database.transaction() as connection:
        select_pending = "SELECT pending FROM scheduled_tasks"
        assert len(await connection.fetchval(select_pending)) == 1_000
    other = await pool.offer()
    await pool.plan()
    assert [grant.items for grant in await pool.fetch(other.node_id)] == [[ItemRange(0, 1)]]
    await pool.check()


async def test_a_range_is_not_complete_before_each_item_has_an_outcome(pool: Pool) -> None:
    node, task = await pool.offer(), await pool.submit(items=2)
    grant = await give(pool, node, task.id, 0, 2)
    odd = ItemsDone(lease_of(grant), (ItemOutcome(0, EndReason.NODE_LEFT, 1.0),))
    wrong = ItemsDone(lease_of(grant), (ItemOutcome(0, EndReason.COMPLETED, 1.0, 3),))
    codes = await pool.report(node.node_id, succeeded(grant, 1), done(grant), odd, wrong)
    assert codes == ["accepted", "invalid_input", "invalid_input", "invalid_input"]
    assert await pool.report(node.node_id, succeeded(grant, 0), done(grant)) == ["accepted"] * 2
    single = await pool.submit()
    await pool.plan()
    (other,) = await pool.fetch(node.node_id)
    assert other.task_id == single.id
    assert await pool.report(node.node_id, succeeded(other, 0)) == ["stale_lease"]


async def test_an_end_whose_outcomes_came_too_late_is_stale_as_they_were(pool: Pool) -> None:
    node, task = await pool.offer(), await pool.submit(items=2, run_seconds=1.0)
    grant = await give(pool, node, task.id, 0, 2)
    await pool.sql("UPDATE attempts SET started_at = now() - interval '1 day'")
    await _run_out(pool)
    assert await expire.expire_once(pool.services, pool.leads) == 1
    codes = await pool.report(node.node_id, succeeded(grant, 0, 1), done(grant))
    assert codes == ["stale_lease", "stale_lease"]
    assert (await pool.task(task.id)).items == ItemCounts(2, 2, 0, 0)
    await pool.check()


async def test_a_grant_names_the_memory_of_its_devices(pool: Pool) -> None:
    node, task = await pool.offer(), await pool.submit(items=2)
    grant = await give(pool, node, task.id, 0, 2)
    assert [device.memory_bytes for device in grant.devices] == [24 * GIB]


async def test_cancelling_ends_every_live_range_at_once(pool: Pool) -> None:
    await pool.give(pool.alice, 10**9)
    nodes = [await pool.offer(price_micro_per_hour=1000) for _ in range(3)]
    task = await pool.submit(items=10, run_seconds=10.0)
    grants = [await give(pool, node, task.id, n, n + 1, 1000) for n, node in enumerate(nodes)]
    await pool.report(nodes[0].node_id, succeeded(grants[0], 0))
    cancelled = await cancel.cancel(pool.services, pool.alice, task.id)
    assert (cancelled.state, cancelled.items) == (TaskState.CANCELLED, ItemCounts(10, 9, 1, 0))
    assert {attempt.state for attempt in cancelled.attempts} == {AttemptState.CANCELLED}
    for node, grant in zip(nodes, grants, strict=True):
        assert await pool.beat(node.node_id, lease_of(grant)) == [grant.attempt_id]
        assert await pool.report(node.node_id, succeeded(grant, 1)) == ["stale_lease"]
    assert (await pool.balance(pool.alice)).held_micro == 0
    await pool.check()


async def test_an_array_that_starts_too_late_expires(pool: Pool) -> None:
    late_task = await pool.submit(items=3, start_within_seconds=5.0)
    started = await pool.submit(items=3, start_within_seconds=5.0)
    node = await pool.offer()
    grant = await give(pool, node, started.id, 0, 1)
    await pool.report(node.node_id, succeeded(grant, 0), done(grant))
    await pool.sql("UPDATE tasks SET start_before = now() - interval '1 second'")
    assert await expire.expire_once(pool.services, pool.leads) == 1
    assert (await pool.task(late_task.id)).state is TaskState.EXPIRED
    assert (await pool.task(started.id)).state is TaskState.QUEUED
    await pool.check()


async def test_the_same_key_is_the_same_array(pool: Pool) -> None:
    first = await pool.submit(key="k", items=5)
    assert (await pool.submit(key="k", items=5)).id == first.id


async def test_only_the_newest_attempts_are_shown(pool: Pool) -> None:
    node, task = await pool.offer(), await pool.submit(items=25)
    for item in range(25):
        grant = await give(pool, node, task.id, item, item + 1)
        await pool.report(node.node_id, succeeded(grant, item), done(grant))
    attempts = (await pool.task(task.id)).attempts
    assert [attempt.number for attempt in attempts] == list(range(6, 26))


async def _run_out(pool: Pool) -> None:
    await pool.sql("UPDATE attempts SET lease_expires_at = now() - interval '1 second'")


async def test_all_attempts_are_listed_in_pages_and_those_at_one_item(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "_NEWEST_ATTEMPTS", 2)
    monkeypatch.setattr(attempt_list, "_SCAN", 2)
    node, array = await pool.offer(), await pool.submit(items=9, max_attempts=3)
    ranges = [(0, 2), (2, 3), (3, 4), (1, 2), (4, 5)]
    for number, (start, end) in enumerate(ranges):
        grant = await give(pool, node, array.id, start, end)
        outcome = failed(grant, 1) if number == 0 else succeeded(grant, start)
        first = [succeeded(grant, 0)] if number == 0 else []
        await pool.report(node.node_id, *first, outcome, done(grant))
    task = await pool.task(array.id)
    assert (len(task.attempts), task.attempt_count) == (2, 5)

    async def numbers(cursor: int | None, limit: int, item: int | None = None) -> object:
        async with pool.services.database.transaction() as connection:
            page = await attempt_list.page(
                connection, pool.services.vault, task, cursor, limit, item
            )
        return [attempt.number for attempt in page.attempts], page.next_cursor

    assert await numbers(None, 2) == ([5, 4], 4)
    assert await numbers(4, 2) == ([3, 2], 2)
    assert await numbers(2, 2) == ([1], None)
    assert await numbers(None, 5) == ([5, 4, 3, 2, 1], None)
    assert await numbers(None, 50, item=1) == ([4], 4)
    assert await numbers(4, 50, item=1) == ([], 2)
    assert await numbers(2, 50, item=1) == ([1], None)
    assert await numbers(1000, 50, item=8) == ([], 4)
