"""Tasks that are granted ahead: behind one that runs, without a share of their own."""

import asyncio
from typing import Any

import pytest

from potluck.model.ids import NodeId
from potluck.model.task import EndReason, TaskState
from potluck.server.flow.housekeeping.expire import expire_once
from potluck.server.flow.schedule.assign import apply_ahead
from potluck.server.flow.settle.cancel import cancel
from potluck.server.flow.submit import submit
from potluck.server.leader.memory import LeaderMemory
from potluck.wire.consumer import TaskView
from potluck.wire.provider import Grant, Report, Started
from tests.server.flow.pool import Pool, done, lease_of, request, used

PRICE = 3_600_000_000  # a micro-credit for each microsecond


async def short(pool: Pool, count: int, **changes: Any) -> list[TaskView]:
    return [await pool.submit(expected_seconds=0.1, **changes) for _ in range(count)]


async def line(pool: Pool, count: int, **changes: Any) -> tuple[NodeId, list[Grant]]:
    """A node whose only device runs the first of so many tasks; the others were granted ahead."""
    price = changes.pop("price_micro_per_hour", 0)
    node = (await pool.offer(price_micro_per_hour=price)).node_id
    await short(pool, count, **changes)
    await pool.plan()
    grants = await pool.fetch(node)
    assert await pool.report(node, Started(lease_of(grants[0]))) == ["accepted"]
    return node, grants


async def test_the_next_tasks_come_with_the_first_and_reserve_nothing(pool: Pool) -> None:
    _, (first, *ahead) = await line(pool, 4)
    assert [first.line, *(grant.line for grant in ahead)] == [None, *[first.attempt_id] * 3]
    assert [grant.devices for grant in ahead] == [first.devices] * 3
    assert await pool.sql("SELECT used_cores FROM nodes") == 8, "the share of its GPU, once"
    assert await pool.sql("SELECT free_milli FROM devices") == 0
    await pool.check()


async def test_the_share_is_passed_on_until_the_line_is_empty(pool: Pool) -> None:
    node, grants = await line(pool, 4)
    for place, grant in enumerate(grants):
        holder = "SELECT id FROM attempts WHERE finished_at IS NULL AND has_share"
        assert await pool.sql(holder) == grant.attempt_id, place
        assert await pool.report(node, Started(lease_of(grant)), done(grant)) == ["accepted"] * 2
        await pool.check()
    assert await pool.sql("SELECT free_milli FROM devices") == 1000
    assert await pool.sql("SELECT count(*) FROM tasks WHERE state = 'succeeded'") == 4


async def test_starts_and_ends_of_a_whole_line_are_reported_in_one_request(pool: Pool) -> None:
    """The one that runs meanwhile has started before the server knows that its share is free."""
    node, (first, second, third, last) = await line(pool, 4)
    reports: list[Report] = [
        done(first),
        *(Started(lease_of(second)), done(second)),
        *(Started(lease_of(third)), done(third)),
        Started(lease_of(last)),
    ]
    assert await pool.report(node, *reports) == ["accepted"] * 6
    await pool.check()
    states = "SELECT string_agg(state, ' ' ORDER BY id) FROM tasks"
    assert await pool.sql(states) == "succeeded succeeded succeeded running"
    assert await pool.report(node, *reports[:5]) == ["accepted"] * 5  # the answer was lost
    holder = "SELECT id FROM attempts WHERE finished_at IS NULL AND has_share"
    assert await pool.sql(holder) == last.attempt_id
    await pool.check()


@pytest.mark.parametrize("reason", [EndReason.DECLINED, EndReason.NODE_LEFT, EndReason.RECLAIMED])
async def test_a_returned_grant_counts_against_no_one(pool: Pool, reason: EndReason) -> None:
    node, (first, second) = await line(pool, 2)
    assert await pool.report(node, done(second, reason)) == ["accepted"]
    task = await pool.task(second.task_id)
    assert (task.state, task.reason) == (TaskState.QUEUED, EndReason.GIVEN_BACK)
    assert await pool.sql("SELECT losses FROM tasks WHERE id = $1", task.id) == 0
    assert await pool.sql("SELECT lost_attempts FROM nodes") == 0
    await pool.check()
    # It waits for its turn, and is not granted ahead again.
    await pool.sql("UPDATE nodes SET is_polling = true")
    await pool.plan()
    assert (await pool.task(task.id)).state is TaskState.QUEUED
    assert await pool.report(node, done(first)) == ["accepted"]
    await pool.plan()
    assert (await pool.task(task.id)).state is TaskState.ASSIGNED
    await pool.check()


async def test_a_cancelled_holder_passes_its_share_on(pool: Pool) -> None:
    _, (first, second) = await line(pool, 2)
    await cancel(pool.services, pool.alice, first.task_id)
    holder = "SELECT id FROM attempts WHERE finished_at IS NULL AND has_share"
    assert await pool.sql(holder) == second.attempt_id
    await pool.check()


async def test_a_silent_node_loses_running_tasks_and_returns_the_rest(pool: Pool) -> None:
    _, (first, second, _) = await line(pool, 3)
    await pool.sql("UPDATE attempts SET lease_expires_at = now()")
    await expire_once(pool.services, pool.leads)
    await pool.check()
    assert (await pool.task(first.task_id)).reason is EndReason.LEASE_EXPIRED
    assert (await pool.task(second.task_id)).reason is EndReason.GIVEN_BACK
    assert await pool.sql("SELECT lost_attempts FROM nodes") == 1
    assert await pool.sql("SELECT free_milli FROM devices") == 1000


async def test_the_lease_of_one_that_waits_ends_in_time(pool: Pool) -> None:
    """A node that keeps tasks and does not start them loses them."""
    node, (first, second) = await line(pool, 2)
    await pool.sql("UPDATE attempts SET fetched_at = fetched_at - interval '1 hour'")
    before = "SELECT lease_expires_at FROM attempts WHERE id = $1"
    remaining = await pool.sql(before, second.attempt_id)
    await pool.sql("UPDATE attempts SET lease_expires_at = lease_expires_at - interval '1 minute'")
    await pool.beat(node, lease_of(first), lease_of(second))
    assert await pool.sql(before, second.attempt_id) < remaining
    assert await pool.sql(before, first.attempt_id) >= remaining


async def test_a_node_is_paid_for_one_attempt_at_a_time(pool: Pool) -> None:
    """It claims that both ran at the same time; the second is paid from when it has the share."""
    await pool.give(pool.alice, 10**13)
    changes: dict[str, Any] = {"price_micro_per_hour": PRICE, "run_seconds": 100.0}
    node, (first, second) = await line(pool, 3, **changes)  # with a price one waits
    assert await pool.report(node, Started(lease_of(second))) == ["accepted"]
    await pool.sql("UPDATE attempts SET started_at = started_at - interval '50 seconds'")
    assert await pool.report(node, done(first, usage=used(50.0))) == ["accepted"]
    assert await pool.report(node, done(second, usage=used(50.0))) == ["accepted"]
    paid = "SELECT charge_micro FROM attempts WHERE id = $1"
    assert await pool.sql(paid, first.attempt_id) >= 50_000_000
    assert await pool.sql(paid, second.attempt_id) < 20_000_000
    await pool.check()


async def test_a_grant_that_ends_before_its_turn_is_not_charged(pool: Pool) -> None:
    await pool.give(pool.alice, 10**13)
    changes: dict[str, Any] = {"price_micro_per_hour": PRICE, "run_seconds": 100.0}
    node, (_, second) = await line(pool, 2, **changes)
    assert await pool.report(node, Started(lease_of(second))) == ["accepted"]
    await pool.sql("UPDATE attempts SET started_at = started_at - interval '50 seconds'")
    assert await pool.report(node, done(second, usage=used(50.0))) == ["accepted"]
    assert await pool.sql("SELECT charge_micro FROM attempts WHERE id = $1", second.attempt_id) == 0
    await pool.check()


async def test_no_grant_is_made_ahead_of_another_accounts_earlier_task(pool: Pool) -> None:
    node = (await pool.offer()).node_id
    await short(pool, 1)
    await pool.plan()
    (first,) = await pool.fetch(node)
    other_task = await submit.submit(pool.services, pool.bob, request(expected_seconds=0.1), None)
    own_tasks = await short(pool, 3)
    await pool.plan()
    assert [(await pool.task(task.id)).state for task in own_tasks] == [TaskState.QUEUED] * 3
    assert await pool.report(node, done(first)) == ["accepted"]
    await pool.plan()
    assert await pool.sql("SELECT state FROM tasks WHERE id = $1", other_task.id) == "assigned"


@pytest.mark.parametrize(
    "changes",
    [{"expected_seconds": 60.0}, {"cores": 2}, {"priority": -1, "cores": 2}, {"items": 3}],
    ids=str,
)
async def test_only_short_tasks_of_the_same_line_are_granted_ahead(
    pool: Pool, changes: dict[str, Any]
) -> None:
    node, _ = await pool.started(expected_seconds=0.1)
    other = await pool.submit(**{"expected_seconds": 0.1, **changes})
    await pool.plan()
    assert (await pool.task(other.id)).state is TaskState.QUEUED
    assert await pool.fetch(node) is not None


CHANGES = {
    "it is silent": "UPDATE nodes SET state = 'silent'",
    "an admin cordoned it": "UPDATE nodes SET cordoned_at = now()",
    "its device is paused": "UPDATE devices SET availability = 'paused'",
    "its owner takes others' tasks": """
        UPDATE devices
        SET description = jsonb_set(description, '{terms}', '{"allow": ["0xabc"]}')""",
    "a server of another version runs": "INSERT INTO instances VALUES ('old', '0.0.1')",
    "it was tried before": """
        UPDATE attempts SET task_id = (SELECT max(id) FROM tasks)""",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_a_grant_that_no_longer_holds_changes_nothing(pool: Pool, change: str) -> None:
    await pool.started(expected_seconds=0.1)
    await short(pool, 1)
    memory = LeaderMemory(pool.services)
    await memory.begin()
    assert not memory.known.scheduler.plan(memory.now, 10).assignments
    (grant_ahead,) = memory.known.scheduler.ahead.plan(memory.now)
    await pool.sql(change)
    assert await apply_ahead(pool.services, pool.leads, grant_ahead) == []
    assert await pool.sql("SELECT count(*) FROM attempts") == 1


async def test_credit_that_is_spent_meanwhile_does_not_stop_the_scheduler(pool: Pool) -> None:
    await pool.give(pool.alice, 10**12)
    await line(pool, 1, price_micro_per_hour=PRICE, run_seconds=10.0)
    await short(pool, 1, run_seconds=10.0)
    memory = LeaderMemory(pool.services)
    await memory.begin()
    assert not memory.known.scheduler.plan(memory.now, 10).assignments
    (grant_ahead,) = memory.known.scheduler.ahead.plan(memory.now)
    assert grant_ahead.hold_micro
    async with pool.services.database.transaction() as connection:
        before = await connection.fetchval(
            "SELECT available_micro FROM balances WHERE account_id = $1 FOR UPDATE", pool.alice
        )
        await connection.execute(
            "UPDATE balances SET available_micro = 0 WHERE account_id = $1", pool.alice
        )
        applying = asyncio.ensure_future(apply_ahead(pool.services, pool.leads, grant_ahead))
        waiting = (
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        while not await pool.sql(waiting):
            assert not applying.done(), "it did not come to the balance"
    assert await applying == []
    restored = f"UPDATE balances SET available_micro = {before} WHERE account_id = '{pool.alice}'"
    await pool.sql(restored)
    await pool.check()
