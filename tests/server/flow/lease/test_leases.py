"""Silence is not death: what was given up for lost is taken back, or is somebody else's by now."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from potluck.decide.types import Assignment, DeviceShare
from potluck.live.in_process import InProcessLive
from potluck.model.error import StaleLease
from potluck.model.ids import AttemptId, NodeId, TaskId
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, ItemRange, Limits, Requirements, TaskState
from potluck.model.task_spec import ScriptSpec
from potluck.server import topics
from potluck.server.flow.housekeeping import expire
from potluck.server.flow.lease import lease
from potluck.server.flow.lease.adopt import readopt
from potluck.server.flow.schedule.assign import apply_assignments
from potluck.server.flow.settle import cancel
from potluck.server.flow.settle.end_many import end_many
from potluck.server.flow.submit import submit
from potluck.server.recently_seen import RecentlySeen
from potluck.wire.provider import (
    AcquireLeases,
    Grant,
    ItemOutcome,
    ItemsDone,
    LeasesGranted,
    NodeRegistered,
    Preparing,
    Started,
)
from tests.server.flow.pool import Pool, done, lease_of, request, used

PRICE = 3_600_000_000  # a credit a second
HOLD = 100 * 1_000_000


async def paid(pool: Pool) -> tuple[NodeId, Grant]:
    """A task that runs and costs something; its lease has run out, and it was given up."""
    await pool.give(pool.alice, HOLD)
    node_id, grant = await pool.started(price_micro_per_hour=PRICE, run_seconds=100.0)
    await lose(pool)
    return node_id, grant


async def lose(pool: Pool) -> None:
    await pool.sql("UPDATE attempts SET lease_expires_at = now() - interval '1 second'")
    assert await expire.expire_once(pool.services, pool.leads) == 1
    await pool.check()


Say = Callable[[Pool, NodeId, Grant], Awaitable[Any]]
SAYINGS: dict[str, Say] = {
    "a heartbeat": lambda pool, node, grant: pool.beat(node, lease_of(grant)),
    "a poll": lambda pool, node, grant: pool.fetch(node, lease_of(grant)),
    "a report": lambda pool, node, grant: pool.report(node, Started(lease_of(grant))),
    "a piece of its log": lambda pool, node, grant: pool.say(node, lease_of(grant), 0, "hello"),
}


@pytest.mark.parametrize("report_lease", SAYINGS.values(), ids=list(SAYINGS))
async def test_any_report_of_the_node_readopts_a_lost_attempt(
    pool: Pool, report_lease: Say
) -> None:
    node_id, grant = await paid(pool)
    assert (await pool.task(grant.task_id)).state is TaskState.QUEUED
    assert (await pool.balance(pool.alice)).held_micro == 0
    await report_lease(pool, node_id, grant)
    task = await pool.task(grant.task_id)
    assert (task.state, task.attempts[0].state) == (TaskState.RUNNING, AttemptState.RUNNING)
    assert (await pool.balance(pool.alice)).held_micro == HOLD
    assert await pool.sql("SELECT losses FROM tasks") == 0
    assert await pool.sql("SELECT lost_attempts FROM nodes") == 0
    await pool.check()
    assert await expire.expire_once(pool.services, pool.leads) == 0, "its lease is as good as new"
    assert await pool.report(node_id, done(grant, usage=used(0.0))) == ["accepted"]
    assert (await pool.task(grant.task_id)).state is TaskState.SUCCEEDED
    await pool.check()


async def test_an_attempt_that_ended_during_the_outage_is_readopted_and_ended(pool: Pool) -> None:
    node_id, grant = await paid(pool)
    await pool.sql("UPDATE attempts SET started_at = now() - interval '10 seconds'")
    reports = [done(grant, usage=used(2.0))] * 2
    assert await pool.report(node_id, *reports) == ["accepted"] * 2
    assert (await pool.task(grant.task_id)).state is TaskState.SUCCEEDED
    assert (await pool.balance(pool.bob)).available_micro == 2_000_000
    assert (await pool.balance(pool.alice)).available_micro == HOLD - 2_000_000
    await pool.check()


async def test_several_lives_are_paid_once(pool: Pool) -> None:
    node_id, grant = await paid(pool)
    for _ in range(3):
        await pool.beat(node_id, lease_of(grant))
        await lose(pool)
    await pool.sql("UPDATE attempts SET started_at = now() - interval '10 seconds'")
    assert await pool.report(node_id, done(grant, usage=used(1.0))) == ["accepted"]
    entries = "SELECT count(*) || ' of ' || sum(amount_micro) FROM ledger_entries"
    assert await pool.sql(f"{entries} WHERE kind = 'reward'") == "1 of 1000000"
    assert await pool.sql("SELECT adoptions FROM attempts") == 4
    await pool.check()


async def test_a_lost_grant_that_was_not_started_is_granted_again(pool: Pool) -> None:
    node = await pool.offer()
    await pool.submit()
    await pool.plan()
    (grant,) = await pool.fetch(node.node_id)
    await lose(pool)
    assert await pool.report(node.node_id, Preparing(lease_of(grant))) == ["accepted"]
    assert (await pool.task(grant.task_id)).state is TaskState.ASSIGNED
    await pool.check()


async def _given_away(pool: Pool, grant: Grant) -> None:
    await pool.offer(price_micro_per_hour=PRICE)
    assert len((await pool.plan()).assigned) == 1


async def _given_away_and_back(pool: Pool, grant: Grant) -> None:
    await _given_away(pool, grant)
    await pool.sql("UPDATE attempts SET lease_expires_at = now() - interval '1 second'")
    await expire.expire_once(pool.services, pool.leads)


async def _cancelled(pool: Pool, grant: Grant) -> None:
    await cancel.cancel(pool.services, pool.alice, grant.task_id)


async def _device_taken(pool: Pool, grant: Grant) -> None:
    await pool.sql("UPDATE devices SET free_milli = 999")


async def _room_taken(pool: Pool, grant: Grant) -> None:
    """By one that came later: it has no room beside that one, on a node with as few cores."""
    other = await pool.submit(run_seconds=1)
    await pool.sql("UPDATE nodes SET cores = 0")
    await pool.sql(
        """INSERT INTO attempts (id, task_id, node_id, consumer_id, provider_id, number, cores,
            memory_bytes, disk_bytes, price_micro_per_hour, hold_micro, run_seconds_limit,
            prepare_seconds_limit, log_bytes_limit, lease_expires_at)
        SELECT 'attempt_later', $1, node_id, consumer_id, provider_id, 1, 0, 0, 0, 0, 0, 1, 1, 1,
            now() + interval '1 hour' FROM attempts WHERE id = $2""",
        other.id,
        grant.attempt_id,
    )


async def _device_sick(pool: Pool, grant: Grant) -> None:
    await pool.sql("UPDATE devices SET availability = 'sick'")


async def _device_gone(pool: Pool, grant: Grant) -> None:
    await pool.sql("UPDATE devices SET is_present = false")


async def _device_contested(pool: Pool, grant: Grant) -> None:
    await pool.sql("UPDATE devices SET standing = 'contested'")


async def _no_credit(pool: Pool, grant: Grant) -> None:
    await pool.sql("UPDATE attempts SET hold_micro = hold_micro + 1")


async def _limit_over(pool: Pool, grant: Grant) -> None:
    await pool.sql("UPDATE attempts SET started_at = now() - interval '1 day'")


async def _left(pool: Pool, grant: Grant) -> None:
    await pool.sql("UPDATE nodes SET state = 'left'")


async def _suspended(pool: Pool, grant: Grant) -> None:
    await pool.sql("UPDATE accounts SET suspended_at = now() WHERE id = $1", pool.bob)


async def _key_revoked(pool: Pool, grant: Grant) -> None:
    await pool.sql(
        "WITH key AS (INSERT INTO node_keys (id, account_id, address, machine, origin, scopes,"
        " nonce, signature, issued_at, expires_at, revoked_at) VALUES ('k', $1, 'a', 'm', 'o',"
        " ARRAY['node'], 'n', 's', now(), now() + interval '1 day', now()) RETURNING id)"
        " UPDATE nodes SET node_key_id = key.id FROM key",
        pool.bob,
    )


async def _ended_otherwise(pool: Pool, grant: Grant) -> None:
    await pool.sql("UPDATE attempts SET reason = 'node_left'")


OBSTACLES = [
    _given_away,
    _given_away_and_back,
    _cancelled,
    _device_taken,
    _room_taken,
    _device_gone,
    _device_contested,
    _device_sick,
    _no_credit,
    _limit_over,
    _left,
    _suspended,
    _key_revoked,
    _ended_otherwise,
]


@pytest.mark.parametrize("obstacle", OBSTACLES, ids=lambda obstacle: obstacle.__name__[1:])
async def test_an_obstacle_makes_the_lease_stale(
    pool: Pool, obstacle: Callable[[Pool, Grant], Awaitable[None]]
) -> None:
    node_id, grant = await paid(pool)
    await obstacle(pool, grant)
    before = await _all_rows(pool)
    async with pool.services.database.transaction() as connection:
        assert not await readopt(pool.services, connection, grant.attempt_id, node_id)
    assert await _all_rows(pool) == before, "nothing has changed"


async def _all_rows(pool: Pool) -> list[str]:
    tables = ("tasks", "attempts", "nodes", "devices", "balances", "ledger_entries", "events")
    return [
        await pool.sql(f"SELECT coalesce(jsonb_agg(t ORDER BY t), '[]')::text FROM {table} AS t")
        for table in tables
    ]


async def test_a_node_is_told_to_stop_attempts_it_no_longer_has(pool: Pool) -> None:
    node_id, grant = await paid(pool)
    await _given_away(pool, grant)
    held_lease = lease_of(grant)
    assert await pool.beat(node_id, held_lease) == [grant.attempt_id]
    poll_request = AcquireLeases((held_lease,), wait_seconds=0)
    assert (await lease.acquire(pool.services, pool.bobs, node_id, poll_request)).stop == [
        grant.attempt_id
    ]
    assert await pool.report(node_id, Started(held_lease), done(grant)) == ["stale_lease"] * 2
    with pytest.raises(StaleLease):
        await pool.say(node_id, held_lease, 0, "hello")
    await pool.check()


async def test_another_node_readopts_nothing(pool: Pool) -> None:
    _, grant = await paid(pool)
    other = await pool.offer(price_micro_per_hour=PRICE)
    assert await pool.beat(other.node_id, lease_of(grant)) == [grant.attempt_id]
    assert (await pool.task(grant.task_id)).state is TaskState.QUEUED


async def test_late_and_over_its_limit_an_outcome_still_counts(pool: Pool) -> None:
    """The node ran it to its end while nobody listened; only the lease was over."""
    node_id, grant = await paid(pool)
    await _limit_over(pool, grant)
    assert await pool.beat(node_id, lease_of(grant)) == [grant.attempt_id]
    assert await pool.report(node_id, done(grant, usage=used(100.0))) == ["accepted"]
    assert (await pool.balance(pool.bob)).available_micro == HOLD, "and never more than was held"
    await pool.check()


async def test_a_round_and_a_heartbeat_at_once_have_one_winner(pool: Pool) -> None:
    """The leader gives the task to another node while the first one takes it back."""
    await pool.give(pool.alice, 10**12)
    node_id, grant = await pool.started(price_micro_per_hour=PRICE, run_seconds=100.0)
    await pool.offer(price_micro_per_hour=PRICE)
    winners = set()
    for _ in range(10):
        await lose(pool)
        stopped, plan = await asyncio.gather(pool.beat(node_id, lease_of(grant)), pool.plan())
        await pool.check()
        assert bool(stopped) == (len(plan.assigned) == 1), "one of them, and only one"
        winners.add(bool(stopped))
        if stopped:
            break
    task = await pool.task(grant.task_id)
    live = [attempt for attempt in task.attempts if attempt.state.is_live]
    assert len(live) == 1 and winners


@pytest.mark.parametrize("report_lease", SAYINGS.values(), ids=list(SAYINGS))
async def test_a_returning_node_readopts_its_work_before_it_gets_more(
    pool: Pool, report_lease: Say
) -> None:
    """The leader is as quick as can be: it plans at each moment at which it could be woken."""
    node_id, grant = await paid(pool)
    await pool.sql("UPDATE nodes SET state = 'silent'")

    class Hurried(InProcessLive):
        async def wake(self, topic: str) -> None:
            if topic == topics.SCHEDULE:
                await pool.plan()

    pool.services = replace(pool.services, live=Hurried())
    await report_lease(pool, node_id, grant)
    assert await pool.sql("SELECT count(*) FROM attempts") == 1
    assert (await pool.task(grant.task_id)).state is TaskState.RUNNING
    names_all = report_lease in (SAYINGS["a heartbeat"], SAYINGS["a poll"])
    assert await pool.sql("SELECT state FROM nodes") == ("online" if names_all else "silent")
    await pool.check()


async def test_concurrent_readoptions_succeed_once_and_cancel_nothing(pool: Pool) -> None:
    """A node that wakes up beats and polls in the same moment."""
    node_id, grant = await paid(pool)
    poll_request = AcquireLeases((lease_of(grant),), wait_seconds=0)
    for adoptions in range(1, 6):
        stopped, polled = await asyncio.gather(
            pool.beat(node_id, lease_of(grant)),
            lease.acquire(pool.services, pool.bobs, node_id, poll_request),
        )
        assert (stopped, polled.stop) == ([], [])
        assert await pool.sql("SELECT adoptions FROM attempts") == adoptions
        await lose(pool)


async def test_a_node_is_silent_before_its_work_waits_again(pool: Pool) -> None:
    """Both at once, for a leader that was held up: it must not be given its own work anew."""
    await pool.started()
    await pool.sql("UPDATE attempts SET lease_expires_at = now() - interval '1 second'")
    await pool.sql("UPDATE nodes SET heartbeat_at = now() - interval '1 day'")
    states: list[str] = []

    class Watched(InProcessLive):
        async def wake(self, topic: str) -> None:
            if topic == topics.SCHEDULE or topic.startswith("node"):
                states.append(await pool.sql("SELECT state FROM nodes"))

    pool.services = replace(pool.services, live=Watched())
    assert await expire.expire_once(pool.services, pool.leads) == 2
    assert set(states) == {"silent"}, "whoever is woken sees that it is silent"


async def test_a_call_about_one_lease_does_not_bring_back_a_node_that_had_two(pool: Pool) -> None:
    """Else the next round would give it its own other task anew, and stop the run it still has."""
    node = await pool.offer(devices=2)
    for _ in range(2):
        await pool.submit()
    await pool.plan()
    first, second = await pool.fetch(node.node_id)
    for grant in (first, second):
        await pool.report(node.node_id, Started(lease_of(grant)))
    await pool.sql("UPDATE attempts SET lease_expires_at = now() - interval '1 second'")
    await pool.sql("UPDATE nodes SET heartbeat_at = now() - interval '1 day'")
    assert await expire.expire_once(pool.services, pool.leads) == 3
    await pool.say(node.node_id, lease_of(first), 0, "hello")
    assert await pool.report(node.node_id, Started(lease_of(first))) == ["accepted"]
    assert not (await pool.plan()).assigned
    assert await pool.beat(node.node_id, lease_of(first), lease_of(second)) == []
    assert await pool.sql("SELECT state FROM nodes") == "online"
    await pool.check()


async def test_a_lease_that_cannot_be_ended_does_not_block_others(pool: Pool) -> None:
    """It stays the first in line each time."""
    (bad_id, bad), (_, good) = await pool.started(), await pool.started()
    await pool.sql("UPDATE nodes SET used_cores = 0 WHERE id = $1", bad_id)
    await pool.sql("UPDATE attempts SET lease_expires_at = now() - interval '1 second'")
    expire_lease = "UPDATE attempts SET lease_expires_at = now() - interval '1 hour' WHERE id = $1"
    await pool.sql(expire_lease, bad.attempt_id)
    assert await expire.expire_once(pool.services, pool.leads) == 1
    select_lost = "SELECT id FROM attempts WHERE state = 'lost'"
    assert await pool.sql(select_lost) == good.attempt_id


async def test_an_unreachable_database_ends_the_batch(pool: Pool) -> None:
    """Each hundred would wait for it once more."""
    attempt_ids = [AttemptId(f"attempt_{number}") for number in range(250)]
    await pool.services.database.close()
    with capture_logs() as log_lines:
        assert await end_many(pool.services, attempt_ids, lambda _: EndReason.NODE_LEFT) == []
    assert [log_line["count"] for log_line in log_lines] == [250]


async def test_recent_contact_is_not_written_again(pool: Pool) -> None:
    """Each call would cost a commit, and nothing goes by it."""
    node_id, grant = await pool.started()
    row = "SELECT xmin::text FROM nodes"
    before = await pool.sql(row)
    assert await pool.report(node_id, Started(lease_of(grant))) == ["accepted"]
    await pool.fetch(node_id, lease_of(grant))
    assert await pool.sql(row) == before
    await pool.sql("UPDATE nodes SET heartbeat_at = now() - interval '2 seconds'")
    await pool.report(node_id, Started(lease_of(grant)))
    assert await pool.sql("SELECT heartbeat_at < now() - interval '1 second' FROM nodes")
    pool.services = replace(pool.services, recently_seen=RecentlySeen())  # as another instance
    await pool.report(node_id, Started(lease_of(grant)))
    assert await pool.sql("SELECT heartbeat_at > now() - interval '1 second' FROM nodes")


async def test_an_open_poll_is_no_sign_of_life(pool: Pool) -> None:
    """Its node may be gone; what was said when it came in is said no more."""
    settings = replace(pool.services.settings, poll_seconds=20.0, lease_poll_seconds=0.01)
    pool.services = replace(pool.services, settings=settings)
    node_id, grant = await pool.started()
    poll_request = AcquireLeases((lease_of(grant),), wait_seconds=0.8)
    ago = "now() - interval '5 seconds'"
    await pool.sql(f"UPDATE nodes SET registered_at = {ago}, heartbeat_at = {ago}")
    polling = asyncio.create_task(lease.acquire(pool.services, pool.bobs, node_id, poll_request))
    while not await pool.sql("SELECT heartbeat_at > registered_at FROM nodes"):
        pass
    await asyncio.sleep(0.2)  # until it has looked for the first time
    await lose(pool)
    assert (await polling).stop == [], "and it is not called off: the node may take it back"
    assert (await pool.task(grant.task_id)).state is TaskState.QUEUED
    assert await pool.beat(node_id, lease_of(grant)) == []
    assert (await pool.task(grant.task_id)).state is TaskState.RUNNING


async def _grant_range(
    pool: Pool, node: NodeRegistered, task_id: TaskId, items: ItemRange
) -> Grant:
    """What the leader would do; how it cuts ranges is not the matter here."""
    share = DeviceShare(node.device_ids[0], 250)
    requirements, limits = Requirements(), Limits(run_seconds=10.0)
    assignment = Assignment(task_id, node.node_id, (share,), requirements, limits, 0, 0, items)
    (attempt,) = await apply_assignments(pool.services, pool.leads, [assignment])
    granted = {grant.attempt_id: grant for grant in await pool.fetch(node.node_id)}
    return granted[attempt.attempt_id]


def outcomes(grant: Grant, *items: int) -> ItemsDone:
    item_outcomes = tuple(ItemOutcome(item, EndReason.COMPLETED, 0.1, 0) for item in items)
    return ItemsDone(lease_of(grant), item_outcomes)


async def test_a_lost_range_is_readopted_with_its_remaining_items(pool: Pool) -> None:
    node = await pool.offer()
    task = await pool.submit(items=10, run_seconds=10.0)
    grant = await _grant_range(pool, node, task.id, ItemRange(0, 6))
    assert (grant.items, grant.items_total) == ([ItemRange(0, 6)], 10)
    assert (
        await pool.report(node.node_id, Started(lease_of(grant)), outcomes(grant, 0, 1))
        == ["accepted"] * 2
    )
    await lose(pool)
    assert await pool.sql("SELECT pending::text FROM tasks") == "{[2,10)}"
    assert await pool.report(node.node_id, outcomes(grant, 2, 3)) == ["accepted"]
    assert await pool.sql("SELECT pending::text FROM tasks") == "{[6,10)}"
    assert (await pool.task(task.id)).state is TaskState.RUNNING
    await pool.check()
    ends = (outcomes(grant, 4, 5), done(grant))
    assert await pool.report(node.node_id, *ends) == ["accepted"] * 2
    assert await pool.sql("SELECT items_succeeded FROM tasks") == 6
    await pool.check()


async def test_a_lost_range_with_a_reassigned_item_is_stale(pool: Pool) -> None:
    node, other = await pool.offer(), await pool.offer()
    task = await pool.submit(items=10, run_seconds=10.0)
    grant = await _grant_range(pool, node, task.id, ItemRange(0, 6))
    await lose(pool)
    second = await _grant_range(pool, other, task.id, ItemRange(5, 8))
    assert await pool.report(node.node_id, outcomes(grant, 0)) == ["stale_lease"]
    assert await pool.beat(node.node_id, lease_of(grant)) == [grant.attempt_id]
    assert await pool.beat(other.node_id, lease_of(second)) == []
    await pool.check()


async def test_one_answer_carries_a_few_grants_and_the_next_one_the_rest(pool: Pool) -> None:
    node = await pool.offer(devices=4)
    for _ in range(4):
        await pool.submit()
    await pool.plan()

    async def ask(*held_grants: Grant) -> LeasesGranted:
        poll_request = AcquireLeases(tuple(map(lease_of, held_grants)), wait_seconds=0, most=3)
        return await lease.acquire(pool.services, pool.bobs, node.node_id, poll_request)

    first = (await ask()).grants
    other_grants = (await ask(*first)).grants
    assert (len(first), len(other_grants)) == (3, 1)
    assert len({grant.attempt_id for grant in first + other_grants}) == 4


async def test_one_answer_carries_no_more_than_a_few_large_sources(pool: Pool) -> None:
    """A thousand grants of a megabyte each would be a gigabyte, again at each poll."""
    node = await pool.offer(devices=7)
    spec = ScriptSpec("large.py", "#" + "é" * (450 * 1024))
    large = replace(request(), spec=spec)
    for _ in range(7):
        await submit.submit(pool.services, pool.alice, large, None)
    await pool.plan()
    first = await pool.fetch(node.node_id)
    other_grants = await pool.fetch(node.node_id, *map(lease_of, first))
    assert (len(first), len(other_grants)) == (5, 2)
    fetched = "SELECT count(*) FROM attempts WHERE fetched_at IS NOT NULL"
    assert await pool.sql(fetched) == 7


class DeafLive(InProcessLive):
    """Every wake-up is lost."""

    async def wake(self, topic: str) -> None:
        del topic


async def test_a_poll_finds_its_grant_though_the_wake_up_was_lost(pool: Pool) -> None:
    settings = replace(pool.services.settings, poll_seconds=20.0, lease_poll_seconds=0.05)
    pool.services = replace(pool.services, live=DeafLive(), settings=settings)
    node = await pool.offer()
    poll_request = AcquireLeases(wait_seconds=20.0)
    polling = asyncio.create_task(
        lease.acquire(pool.services, pool.bobs, node.node_id, poll_request)
    )
    await pool.submit()
    await pool.plan()
    assert len((await asyncio.wait_for(polling, 10)).grants) == 1
