"""What owners say of their devices holds for all that comes after, and for nothing that runs."""

import random
from typing import Any

import pytest
from msgspec.structs import replace

from potluck.model.device import DeviceDescription
from potluck.model.ids import NodeId
from potluck.model.task import GIB, EndReason, TaskState
from potluck.model.terms import DeviceTerms, TaskKind
from potluck.server.flow.housekeeping import expire
from potluck.server.flow.submit import submit
from potluck.server.leader.memory import LeaderMemory
from tests.server.flow.pool import Pool, description, done, lease_of, request
from tests.server.flow.schedule.test_schedule_memory import swept
from tests.wallets import Wallet


def cards(count: int = 1, **terms: Any) -> tuple[DeviceDescription, ...]:
    """The cards of one machine, on these terms."""
    plain = description(count, machine="card").devices
    return tuple(replace(device, terms=DeviceTerms(**terms)) for device in plain)


async def says(pool: Pool, node_id: NodeId | None, **terms: Any) -> NodeId:
    """The owner says it, and the node registers with that."""
    return (await pool.offer(node_id, devices=cards(**terms))).node_id


async def waits_for(pool: Pool) -> list[str]:
    """Plans, and tells why what still waits does."""
    plan = await pool.plan()
    return [waiting_task.reason.code for waiting_task in plan.waiting.values()]


ALICE = Wallet("alice").address
TERMS: list[tuple[dict[str, Any], dict[str, Any], str | None]] = [
    # (terms, what is asked for, why that waits)
    ({"kinds": (TaskKind.CONTAINER,)}, {}, "task_kind"),
    ({"kinds": (TaskKind.SCRIPT, TaskKind.CONTAINER)}, {}, None),
    ({"deny": (ALICE.lower(),)}, {}, "wallet"),
    ({"allow": ("0x" + "ab" * 20,)}, {}, "wallet"),
    ({"allow": ("0x" + "ab" * 20, ALICE.lower())}, {}, None),
    ({"fractions": 4}, {"device_milli": 200}, "fraction"),
    ({"fractions": 4}, {"device_milli": 250}, None),
    ({"fractions": 1}, {}, None),
    ({"memory_share": 0.5}, {"device_memory_bytes": 13 * GIB}, "device_memory"),
]


async def test_tasks_are_assigned_where_owners_accept_them(pool: Pool) -> None:
    """One machine, whose owner changes his mind, while a leader goes on leading."""
    node_id = await says(pool, None)
    for terms, changes, waits in TERMS:
        await says(pool, node_id, **terms)
        task = await pool.submit(**changes)
        assert await waits_for(pool) == ([waits] if waits else []), terms
        if waits:
            await says(pool, node_id)
            assert await waits_for(pool) == []
        (grant,) = await pool.fetch(node_id)
        await pool.report(node_id, done(grant))
        assert (await pool.task(task.id)).state is TaskState.SUCCEEDED
    await pool.check()


async def test_owners_accept_their_own_tasks_despite_their_lists(pool: Pool) -> None:
    """Planned and assigned: lists are about others."""
    bob = Wallet("bob").address
    node_id = await says(pool, None, deny=(bob.lower(),), allow=(ALICE, "0x" + "ab" * 20))
    await submit.submit(pool.services, pool.bob, request(), None)
    assert await waits_for(pool) == []
    assert len(await pool.fetch(node_id)) == 1
    await pool.check()


async def test_unavailable_devices_are_planned_with_when_they_return(pool: Pool) -> None:
    """By a leader who hears of it as it happens."""
    await pool.offer()
    await pool.submit()
    await pool.sql("UPDATE devices SET availability = 'in_use', why = 'somebody plays'")
    memory = LeaderMemory(pool.services)
    await memory.begin()
    plan = memory.known.scheduler.plan(memory.now, 10)
    assert [waiting_task.reason.code for waiting_task in plan.waiting.values()] == ["device_away"]
    assert plan.assignments == ()
    await pool.sql("UPDATE devices SET availability = 'available', why = ''")
    await memory.catch_up()
    assert len(memory.known.scheduler.plan(memory.now, 10).assignments) == 1


async def test_a_wallet_is_allowed_before_it_has_an_account(pool: Pool) -> None:
    """Who is on a list and signs in later is heard of by the leader that knows the list."""
    carol = Wallet("carol").address
    await says(pool, None, allow=(carol,))
    await pool.submit()
    memory = LeaderMemory(pool.services)
    await memory.begin()
    assert memory.known.scheduler.plan(memory.now, 10).assignments == ()
    # As if the account were carol's, and came only now.
    await pool.sql("UPDATE accounts SET address = $1, weight = 2 WHERE id = $2", carol, pool.alice)
    for _ in range(2):
        await memory.catch_up()
    assert len(memory.known.scheduler.plan(memory.now, 10).assignments) == 1


async def test_a_list_that_the_leader_has_missed_is_found_and_mended(pool: Pool) -> None:
    node_id = await says(pool, None, deny=(ALICE,))
    memory = LeaderMemory(pool.services)
    await memory.begin()
    node = memory.known.nodes[node_id]
    memory.known.put_nodes([replace(node, lists={})], memory.now)
    assert await swept(pool, memory) == 1
    assert await swept(pool, memory) == 0


@pytest.mark.parametrize(
    ("is_reclaimable", "reason", "is_closed", "counted"),
    [
        (True, EndReason.RECLAIMED, True, 0),
        (True, EndReason.RECLAIMED, False, 1),
        (False, EndReason.RECLAIMED, True, 1),
        (True, EndReason.DECLINED, True, 1),
        (True, EndReason.DEVICE_LOST, True, 1),
    ],
)
async def test_a_device_can_be_reclaimed_if_declared(
    pool: Pool, is_reclaimable: bool, reason: EndReason, is_closed: bool, counted: int
) -> None:
    """As it had been said when the task came, whatever was said since; but not and ask for more."""
    node_id = await says(pool, None, is_reclaimable=is_reclaimable)
    task = await pool.submit()
    await pool.plan()
    (grant,) = await pool.fetch(node_id)
    assert grant.is_reclaimable is is_reclaimable
    await says(pool, node_id, is_reclaimable=not is_reclaimable, is_paused=is_closed)
    assert await pool.report(node_id, done(grant, reason)) == ["accepted"]
    assert await pool.sql("SELECT lost_attempts FROM nodes") == counted
    task_view = await pool.task(task.id)
    assert task_view.state is TaskState.QUEUED
    assert task_view.attempts[0].reason is reason and task_view.charge_micro == 0
    await pool.check()


async def test_each_reclaim_lowers_reliability(pool: Pool) -> None:
    node_id = await says(pool, None, is_reclaimable=True)
    await pool.submit()
    for times in (1, 2, 3):
        await pool.plan()
        (grant,) = await pool.fetch(node_id)
        await pool.report(node_id, done(grant, EndReason.RECLAIMED))
        assert await pool.sql("SELECT lost_attempts FROM nodes") == times
        assert await pool.sql("SELECT not_before IS NOT NULL FROM tasks"), "not at once"


async def test_a_reclaimed_task_moves_and_returns_only_if_no_other_node_fits(pool: Pool) -> None:
    reclaiming_node = await says(pool, None, is_reclaimable=True)
    await pool.submit()
    await pool.plan()
    (grant,) = await pool.fetch(reclaiming_node)
    full_node = (await pool.offer()).node_id
    await pool.sql("UPDATE devices SET free_milli = 0 WHERE node_id = $1", full_node)
    await pool.report(reclaiming_node, done(grant, EndReason.RECLAIMED))
    assert (await pool.plan()).assigned == (), "the cellar could take it later"
    await pool.sql("UPDATE devices SET availability = 'paused' WHERE node_id = $1", full_node)
    (second_assignment,) = (await pool.plan()).assigned
    assert second_assignment.node_id == reclaiming_node


async def test_a_declined_task_waits_a_moment(pool: Pool) -> None:
    """Else it would be given back as often as the network allows, until the server has heard."""
    node_id, grant = await pool.started()
    await pool.report(node_id, done(grant, EndReason.DECLINED))
    assert await pool.sql("SELECT not_before IS NOT NULL FROM tasks")
    assert await pool.sql("SELECT losses FROM tasks") == 0, "it had no part in that"


async def test_a_declined_task_says_why_and_waits_longer_each_time(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a node lacks may never come: nobody asks it every second for ever."""
    back_off = {"back_off_first_seconds": 100.0, "back_off_longest_seconds": 1000.0}
    settings = replace(pool.services.settings, **back_off)
    pool.services = replace(pool.services, settings=settings)
    monkeypatch.setattr(random, "random", lambda: 1.0)
    node_id, grant = await pool.started()
    waits = []
    for _ in range(5):
        no_image = done(grant, EndReason.DECLINED, detail="The node has no image x:1")
        await pool.report(node_id, no_image)
        waits.append(
            await pool.sql(
                "SELECT (extract(epoch FROM not_before - now()) + 1)::int / 100 * 100 FROM tasks"
            )
        )
        task = await pool.task(grant.task_id)
        assert task.waiting is not None and task.waiting.code == "declined"
        assert "declined it. The node has no image x:1. It" in task.waiting.sentence
        await pool.sql("UPDATE tasks SET not_before = NULL")
        await pool.plan()
        (grant,) = await pool.fetch(node_id)
    assert waits == [100, 200, 400, 800, 1000]


async def lost(pool: Pool) -> None:
    """All leases run out, and nobody else is given the work."""
    await pool.sql("UPDATE attempts SET lease_expires_at = now() - interval '1 second'")
    await expire.expire_once(pool.services, pool.leads)


async def test_running_attempts_are_readopted_despite_later_terms(pool: Pool) -> None:
    """Its owner takes other tasks, gives less and wants others there; but it runs."""
    node_id = await says(pool, None)
    await pool.submit(cores=8, memory_bytes=16 * GIB)
    await pool.plan()
    (grant,) = await pool.fetch(node_id)
    await lost(pool)
    devices = cards(1, kinds=(TaskKind.CONTAINER,), deny=(ALICE,), memory_share=0.5)
    await pool.offer(node_id, devices=devices, cores=2, memory_bytes=GIB)
    await pool.sql("UPDATE devices SET availability = 'paused'")
    assert await pool.beat(node_id, lease_of(grant)) == []
    assert await pool.sql("SELECT state FROM attempts") == "granted"
    await pool.check()
    memory = LeaderMemory(pool.services)
    await memory.begin()
    node = memory.known.nodes[node_id].node
    assert node is not None and (node.free_cores, node.free_memory_bytes) == (0, 0)
    assert node.devices[0].free_memory_bytes == 0
    await pool.report(node_id, done(grant))
    await pool.check()


async def test_an_attempt_on_a_sick_device_is_not_readopted(pool: Pool) -> None:
    node_id, grant = await pool.started()
    await lost(pool)
    await pool.sql("UPDATE devices SET availability = 'sick'")
    assert await pool.beat(node_id, lease_of(grant)) == [grant.attempt_id]


async def test_running_tasks_stay_when_sharing_ends(pool: Pool) -> None:
    """And nobody else comes."""
    node_id = await says(pool, None, shares_accounts=True)
    await pool.submit(device_milli=300, shares_device=True)
    alice, pool.alice = pool.alice, pool.bob
    await pool.submit(device_milli=300, shares_device=True)
    pool.alice = alice
    assert len((await pool.plan()).assigned) == 2
    grants = await pool.fetch(node_id)
    await says(pool, node_id, shares_accounts=False)
    await pool.check()
    await lost(pool)
    assert await pool.beat(node_id, *map(lease_of, grants)) == [], "both are taken back"
    await pool.check()
    await pool.submit(device_milli=300, shares_device=True)
    assert await waits_for(pool) == ["device_shared"]
