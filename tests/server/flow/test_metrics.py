"""What is counted of the flow, and the figures of the pool: on a real database."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import pytest
from msgspec.structs import replace

from potluck.live.in_process import InProcessLive
from potluck.model.device import Availability
from potluck.model.error import Unavailable
from potluck.model.event import EventKind
from potluck.model.task import EndReason
from potluck.server import topics
from potluck.server.flow.housekeeping import expire
from potluck.server.flow.lease import lease
from potluck.server.flow.notify.notify import notify_once, record_announced
from potluck.server.flow.schedule.dependents import resolve_dependencies_once
from potluck.server.flow.schedule.schedule import schedule_once
from potluck.server.flow.settle.payouts import mark_paid
from potluck.server.leader.memory import LeaderMemory
from potluck.server.loops.leadership import LeadershipLoop
from potluck.server.loops.pool_figures import PoolFiguresLoop
from potluck.store import pool_figures
from potluck.store.events.outbox import Event, PlacedEvent
from potluck.wire.device_status import DeviceStatus
from potluck.wire.money.rewards import PaidRow
from potluck.wire.provider import Heartbeat, Started
from tests.server.flow.pool import Pool, done, lease_of
from tests.server.flow.settle.reward_epochs import close, earn, want_payout
from tests.server.flow.settle.test_slices import SLICE, begin, run
from tests.wallets import Wallet

T = TypeVar("T")


async def announced(pool: Pool) -> None:
    while (batch := await notify_once(pool.services, 0)).count:
        await record_announced(pool.services, batch.place)


def value(pool: Pool, name: str, **labels: str) -> float | None:
    return pool.services.metrics.registry.value(name, **labels)


async def collected(pool: Pool) -> None:
    memory = LeaderMemory(pool.services)
    await memory.begin()
    await PoolFiguresLoop(pool.services, memory).collect()


async def test_the_life_of_a_task_is_counted_once(pool: Pool) -> None:
    node_id, grant = await pool.started()
    await announced(pool)
    assert value(pool, "potluck_tasks_queued_total", cause="submitted") == 1
    assert value(pool, "potluck_attempts_started_total") == 1
    assert value(pool, "potluck_tasks_finished_total", state="succeeded") == 0
    await pool.report(node_id, done(grant))
    await announced(pool)
    await announced(pool)
    assert value(pool, "potluck_tasks_finished_total", state="succeeded") == 1
    assert value(pool, "potluck_attempts_ended_total", reason="completed") == 1
    assert value(pool, "potluck_tasks_queued_total", cause="retried") == 0


async def test_lost_leases_and_retries_are_counted(pool: Pool) -> None:
    await pool.started()
    await pool.sql("UPDATE attempts SET lease_expires_at = now() - interval '1 second'")
    await pool.sql("UPDATE nodes SET heartbeat_at = now() - interval '10 minutes'")
    await expire.expire_once(pool.services, pool.leads)
    await announced(pool)
    assert value(pool, "potluck_attempts_ended_total", reason="lease_expired") == 1
    assert value(pool, "potluck_tasks_queued_total", cause="retried") == 1
    assert value(pool, "potluck_nodes_silenced_total") == 1


async def test_rolled_back_events_are_not_counted(pool: Pool) -> None:
    with pytest.raises(ZeroDivisionError):
        async with pool.services.database.transaction() as connection:
            await connection.execute(
                "INSERT INTO events (account_id, kind, data) VALUES ($1, 'node.silent', '{}')",
                pool.bob,
            )
            raise ZeroDivisionError
    await announced(pool)
    assert value(pool, "potluck_nodes_silenced_total") == 0


async def test_the_start_of_a_task_that_fits_is_measured(pool: Pool) -> None:
    await pool.started()
    await announced(pool)
    assert value(pool, "potluck_task_start_seconds_count") == 1
    assert value(pool, "potluck_task_start_seconds_bucket", le="10.0") == 1


async def test_a_start_reported_before_its_round_ended_is_measured(pool: Pool) -> None:
    """The node fetches as soon as it is woken, and another duty announces the start."""
    node = await pool.offer()

    class QuickNode(InProcessLive):
        async def wake(self, topic: str) -> None:
            if topic == topics.node(node.node_id):
                (grant,) = await pool.fetch(node.node_id)
                await pool.report(node.node_id, Started(lease_of(grant)))
                await announced(pool)

    memory = LeaderMemory(pool.services)
    await memory.begin()
    await pool.submit()
    services = replace(pool.services, live=QuickNode())
    await schedule_once(services, pool.leads, memory)
    assert value(pool, "potluck_attempts_started_total") == 1
    assert value(pool, "potluck_task_start_seconds_count") == 1


async def test_a_task_that_could_not_be_assigned_is_not_expected_to_start(pool: Pool) -> None:
    """When it starts at last, it may have waited."""
    await pool.offer()
    memory = LeaderMemory(pool.services)
    await memory.begin()
    waits = await pool.submit()
    plan_in_thread = memory.planner

    async def planner(work: Callable[[], T]) -> T:
        next_plan = await plan_in_thread(work)
        await pool.sql("UPDATE nodes SET cordoned_at = now()")
        return next_plan

    memory.planner = planner
    await schedule_once(pool.services, pool.leads, memory)
    assert value(pool, "potluck_scheduler_decisions_total", outcome="refused") == 1
    event = Event(pool.alice, EventKind.TASK_RUNNING, waits.id)
    pool.services.metrics.work.count([PlacedEvent(1, event, start_seconds=99.0)])
    assert value(pool, "potluck_task_start_seconds_count") == 0


async def test_a_task_that_waited_for_a_device_or_for_another_task_is_not_measured(
    pool: Pool,
) -> None:
    node = await pool.offer()
    memory = LeaderMemory(pool.services)
    await memory.begin()
    first = await pool.submit()
    await pool.submit(after=(first.id,))
    await _round(pool, memory)
    waits = await pool.submit(priority=-1)
    await _round(pool, memory)  # it finds no free device
    end_count = 0
    while end_count < 3:
        grants = await pool.fetch(node.node_id)
        assert grants
        for grant in grants:  # one may be granted ahead
            await pool.report(node.node_id, Started(lease_of(grant)))
            await pool.report(node.node_id, done(grant))
        end_count += len(grants)
        await announced(pool)
        await _released(pool)
        await _round(pool, memory)
        assert value(pool, "potluck_task_start_seconds_count") == 1, end_count
    assert (await pool.task(waits.id)).state.is_final


async def test_a_second_start_is_not_measured(pool: Pool) -> None:
    node_id, grant = await pool.started()
    await announced(pool)
    await pool.report(node_id, done(grant, EndReason.NODE_LEFT))
    other = await pool.offer()
    await pool.plan()
    (second_grant,) = await pool.fetch(other.node_id)
    await pool.report(other.node_id, Started(lease_of(second_grant)))
    await announced(pool)
    assert value(pool, "potluck_attempts_started_total") == 2
    assert value(pool, "potluck_task_start_seconds_count") == 1


async def test_rounds_and_decisions_are_counted(pool: Pool) -> None:
    await pool.offer(devices=2)
    for _ in range(3):
        await pool.submit()
    await pool.plan()
    assert value(pool, "potluck_scheduler_decisions_total", outcome="applied") == 2
    assert value(pool, "potluck_scheduler_decisions_total", outcome="refused") == 0
    assert (value(pool, "potluck_scheduler_round_seconds_count") or 0) >= 1
    assert (value(pool, "potluck_scheduler_plan_seconds_sum") or 0) > 0


async def test_temperatures_come_with_heartbeats(pool: Pool) -> None:
    node = await pool.offer()
    uuid = f"{pool.machines[node.node_id]}-0"
    hot = DeviceStatus(uuid, temperature_celsius=95.0)
    await lease.heartbeat(pool.services, pool.bobs, node.node_id, Heartbeat((), devices=(hot,)))
    assert value(pool, "potluck_device_temperature_celsius_bucket", le="90.0") == 0
    assert value(pool, "potluck_device_temperature_celsius_count") == 1


async def test_the_figures_of_a_pool(pool: Pool) -> None:
    await pool.give(pool.alice, 10_000_000)
    await pool.offer(devices=3)
    silent = await pool.offer()
    sick_node = await pool.offer()
    status = DeviceStatus(f"{pool.machines[sick_node.node_id]}-0", Availability.SICK, "It is lost.")
    await lease.heartbeat(
        pool.services, pool.bobs, sick_node.node_id, Heartbeat((), devices=(status,))
    )
    await pool.sql("UPDATE nodes SET state = 'silent' WHERE id = $1", silent.node_id)
    await pool.submit()
    await pool.plan()
    for priority in (5, 0):
        await pool.submit(priority=priority, device_count=8)
    await collected(pool)
    assert value(pool, "potluck_nodes", state="online") == 2
    assert value(pool, "potluck_nodes_missing") == 1
    states = {"busy": 1, "free": 2, "silent": 1, "sick": 1}
    for state, count in states.items():
        assert value(pool, "potluck_devices", kind="gpu", state=state) == count
    assert value(pool, "potluck_devices_offered", kind="gpu") == 3
    assert value(pool, "potluck_devices_used", kind="gpu") == 1
    assert value(pool, "potluck_attempts", state="granted") == 1
    for priority_class in ("high", "normal"):
        labels = {"priority": priority_class, "reason": "in_line"}
        assert value(pool, "potluck_queue_tasks", **labels) == 1
        assert (value(pool, "potluck_queue_oldest_seconds", **labels) or 0) >= 0
    assert value(pool, "potluck_ledger_credits", purse="available") == 10
    assert value(pool, "potluck_ledger_credits", purse="issued") == -10
    assert value(pool, "potluck_ledger_imbalance_credits") == 0
    assert (value(pool, "potluck_outbox_events") or 0) > 0


async def test_purses_sum_to_zero_while_a_slice_is_held_back(pool: Pool) -> None:
    await begin(pool, fee_basis_points=500)
    await run(pool, SLICE)
    await collected(pool)
    held_back = value(pool, "potluck_ledger_credits", purse="held_back")
    assert held_back is not None and held_back > 0
    assert value(pool, "potluck_ledger_imbalance_credits") == 0


async def test_purses_sum_to_zero_after_payouts_and_late_rewards_are_shown(pool: Pool) -> None:
    await want_payout(pool, pool.bob)
    await earn(pool, 10, fee_basis_points=500)
    await close(pool)
    await mark_paid(pool.services, pool.alice, [PaidRow("a", Wallet("bob").address, 500_000)])
    await pool.sql("UPDATE epochs SET closed_at = now() - interval '1 hour' WHERE number = 1")
    await pool.sql(
        "UPDATE epochs SET ends_at = now() - interval '2 hours',"
        " starts_at = now() - interval '1 day' WHERE number = 2"
    )
    await collected(pool)
    purses = [
        value(pool, "potluck_ledger_credits", purse=purse)
        for purse in ("claimable", "paid", "fees")
    ]
    assert purses == [9.0, 0.5, 0.5]
    assert value(pool, "potluck_ledger_imbalance_credits") == 0
    assert value(pool, "potluck_payout_age_seconds") == pytest.approx(3600, abs=60)
    assert value(pool, "potluck_epoch_overdue_seconds") == pytest.approx(7200, abs=60)


async def test_the_age_of_the_latest_backup(pool: Pool) -> None:
    await collected(pool)
    assert value(pool, "potluck_backup_timestamp_seconds") == 0, "there is none"
    await pool.sql(
        "INSERT INTO backups (id, finished_at, guarded_until, is_encrypted)"
        " VALUES ('a', to_timestamp(1000), now(), false), ('b', NULL, now(), false)"
    )
    await collected(pool)
    assert value(pool, "potluck_backup_timestamp_seconds") == 1000


async def test_a_wrong_balance_is_an_imbalance(pool: Pool) -> None:
    await pool.give(pool.alice, 10_000_000)
    await pool.sql("UPDATE balances SET available_micro = available_micro + 500000")
    await collected(pool)
    assert value(pool, "potluck_ledger_imbalance_credits") == 1.0, "half a credit for each of two"


async def test_the_waiting_reason_is_a_label(pool: Pool) -> None:
    await pool.submit(device_count=8)
    await pool.offer()
    memory = LeaderMemory(pool.services)
    await memory.begin()
    await _round(pool, memory)
    await PoolFiguresLoop(pool.services, memory).collect()
    labels = {"priority": "normal", "reason": "device_count"}
    assert value(pool, "potluck_queue_tasks", **labels) == 1


async def test_a_node_that_left_long_ago_is_not_missing(pool: Pool) -> None:
    await pool.offer()
    await pool.sql("UPDATE nodes SET state = 'silent', heartbeat_at = now() - interval '2 hours'")
    await collected(pool)
    assert value(pool, "potluck_nodes", state="silent") == 1
    assert value(pool, "potluck_nodes_missing") == 0


async def test_moved_credit_is_counted_once_and_when_it_is_settled(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = LeaderMemory(pool.services)
    await memory.begin()
    await pool.give(pool.alice, 1_000_000)
    loop = PoolFiguresLoop(pool.services, memory)
    monkeypatch.setattr(pool_figures.read_moved, "__defaults__", (timedelta(0),))
    await loop.collect()
    assert value(pool, "potluck_ledger_moved_credits_total", kind="grant") == 1.0
    await pool.give(pool.bob, 3_000_000)
    await loop.collect()
    await loop.collect()
    assert value(pool, "potluck_ledger_moved_credits_total", kind="grant") == 4.0
    monkeypatch.undo()
    await pool.give(pool.bob, 3_000_000)
    await loop.collect()
    assert value(pool, "potluck_ledger_moved_credits_total", kind="grant") == 4.0


async def test_only_the_leader_exports_metrics_of_the_pool(pool: Pool) -> None:
    await pool.sql("UPDATE leader SET expires_at = now()")
    leadership = LeadershipLoop(pool.services)
    await leadership.run_once()
    assert value(pool, "potluck_leading") == 1
    assert value(pool, "potluck_leader_term") == 2
    async with asyncio.timeout(30):
        while value(pool, "potluck_nodes", state="online") is None:
            await asyncio.sleep(0.01)
    await pool.sql("UPDATE leader SET holder = 'another'")
    await leadership.run_once()
    assert value(pool, "potluck_leading") == 0
    assert value(pool, "potluck_nodes", state="online") is None


async def test_a_leader_that_cannot_renew_stops_announcing_itself(pool: Pool) -> None:
    settings = replace(pool.services.settings, leader_seconds=0.3)
    leadership = LeadershipLoop(replace(pool.services, settings=settings))
    await pool.sql("UPDATE leader SET expires_at = now()")
    await leadership.run_once()
    assert value(pool, "potluck_leading") == 1
    async with pool.services.database.transaction() as connection:
        await connection.execute("SELECT FROM leader FOR UPDATE")
        with pytest.raises((TimeoutError, Unavailable)):
            await leadership.run_once()
        assert value(pool, "potluck_leading") == 0
    await leadership.run_once()
    assert value(pool, "potluck_leading") == 1
    await leadership._stop_duties()


async def _round(pool: Pool, memory: LeaderMemory) -> None:
    while not (await schedule_once(pool.services, pool.leads, memory)).is_complete:
        pass


async def _released(pool: Pool) -> None:
    while await resolve_dependencies_once(pool.services, pool.leads):
        pass
