"""Before it believes in many deaths, the server doubts itself; once."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from potluck.decide.lease_grace import HeartbeatTimes
from potluck.model.ids import NodeId
from potluck.model.node import NodeState
from potluck.server.flow.housekeeping import expire
from potluck.store.scheduler import leader
from potluck.store.sql_files import load
from potluck.wire.provider import Grant
from tests.server.flow.pool import Pool, lease_of

leases, nodes = load("leases"), load("nodes")


@pytest.fixture
async def pool(pool: Pool) -> Pool:
    """With the times of a real pool."""
    settings = replace(
        pool.services.settings,
        lease_seconds=90.0,
        heartbeat_seconds=20.0,
        silent_after_seconds=60.0,
    )
    pool.services = replace(pool.services, settings=settings)
    return pool


async def sleep(pool: Pool, seconds: float) -> None:
    """As if so much time had passed, for all that the database knows."""
    passed = f"interval '{seconds} seconds'"
    await pool.sql(f"UPDATE nodes SET heartbeat_at = heartbeat_at - {passed}")
    await pool.sql(f"UPDATE attempts SET lease_expires_at = lease_expires_at - {passed}")
    await pool.sql(
        f"UPDATE leader SET expires_at = expires_at - {passed}, led_until = led_until - {passed},"
        f" forgiven_beat_at = forgiven_beat_at - {passed},"
        f" forgiven_until = forgiven_until - {passed}"
    )


async def take_over(pool: Pool) -> None:
    """The next leader, as its loop begins."""
    async with pool.services.database.transaction() as connection:
        await connection.execute("UPDATE leader SET expires_at = least(expires_at, now())")
        leadership = await leader.acquire_or_renew(connection, "next", 3600)
    assert leadership is not None
    pool.leads = leadership
    await expire.begin_term(pool.services, pool.leads)


async def expired(pool: Pool) -> int:
    return await expire.expire_once(pool.services, pool.leads)


async def state(pool: Pool, node_id: NodeId) -> NodeState:
    return NodeState(await pool.sql("SELECT state FROM nodes WHERE id = $1", node_id))


async def lead_until_now(pool: Pool) -> None:
    """The leader was there until this moment."""
    await pool.sql("UPDATE leader SET expires_at = now() + interval '1 second'")


async def test_a_server_that_was_down_for_an_hour_loses_no_lease(pool: Pool) -> None:
    node_id, grant = await pool.started()
    await lead_until_now(pool)
    await sleep(pool, 3600)
    await take_over(pool)
    assert await expired(pool) == 0
    assert await state(pool, node_id) is NodeState.ONLINE
    assert await pool.beat(node_id, lease_of(grant)) == []
    await pool.check()


async def test_a_gap_is_forgiven_also_when_the_first_answer_was_lost(pool: Pool) -> None:
    await pool.started()
    other, grant = await pool.started()
    await lead_until_now(pool)
    await sleep(pool, 3600)
    assert await pool.beat(other, lease_of(grant)) == []
    for _ in range(2):  # the first answer is lost, and the term is already the own one
        async with pool.services.database.transaction() as connection:
            leadership = await leader.acquire_or_renew(connection, "next", 3600)
    assert leadership is not None
    pool.leads = leadership
    await expire.begin_term(pool.services, pool.leads)
    assert await expired(pool) == 0


@pytest.mark.parametrize("are_all_back", [True, False])
async def test_polls_before_there_is_a_leader_lose_nothing(pool: Pool, are_all_back: bool) -> None:
    """It is heard by that, and what it holds is renewed only by its next beat."""
    node_id, grant = await pool.started()
    if not are_all_back:
        await pool.started()
    await lead_until_now(pool)
    await sleep(pool, 120)
    assert await pool.fetch(node_id, lease_of(grant)) == []
    await take_over(pool)
    assert await expired(pool) == 0
    await pool.check()


async def test_the_grace_is_over_after_ten_minutes(pool: Pool) -> None:
    node_id, _ = await pool.started()
    await lead_until_now(pool)
    await sleep(pool, 3600)
    await take_over(pool)
    await sleep(pool, 590)
    await pool.sql("UPDATE leader SET expires_at = now() + interval '1 hour'")
    assert await expired(pool) == 0
    await sleep(pool, 20)
    await pool.sql("UPDATE leader SET expires_at = now() + interval '1 hour'")
    assert await expired(pool) == 2, "its lease, and the node is silent"
    assert await state(pool, node_id) is NodeState.SILENT


async def test_the_next_leader_does_not_forgive_the_same_gap_again(pool: Pool) -> None:
    await pool.started()
    await lead_until_now(pool)
    await sleep(pool, 120)
    for _ in range(5):
        await take_over(pool)
        await sleep(pool, 30)
    await take_over(pool)
    assert await expired(pool) == 2


async def test_nodes_silent_before_the_gap_get_no_grace(pool: Pool) -> None:
    _, lost_grant = await pool.started()
    await sleep(pool, 100)
    alive, grant = await pool.started()
    await lead_until_now(pool)
    await sleep(pool, 120)
    await take_over(pool)
    assert await expired(pool) == 1
    states = "SELECT state FROM attempts WHERE id = $1"
    assert await pool.sql(states, lost_grant.attempt_id) == "lost"
    assert await pool.sql(states, grant.attempt_id) == "running"
    assert await pool.beat(alive, lease_of(grant)) == []


async def test_a_short_change_of_leaders_forgives_nothing(pool: Pool) -> None:
    """Another node beats all the time, so the silent one is silent by itself."""
    await pool.started()
    other = (await pool.offer()).node_id
    for _ in range(5):
        await sleep(pool, 20)
        await pool.beat(other)
        await take_over(pool)
    assert await expired(pool) == 2


async def many(pool: Pool, count: int) -> list[tuple[NodeId, Grant]]:
    return [await pool.started() for _ in range(count)]


async def beat(pool: Pool, *running: tuple[NodeId, Grant]) -> None:
    for node_id, grant in running:
        assert await pool.beat(node_id, lease_of(grant)) == []


async def test_silence_of_a_third_of_the_nodes_is_first_taken_as_the_servers_fault(
    pool: Pool,
) -> None:
    running = await many(pool, 9)
    await sleep(pool, 62)
    await beat(pool, *running[3:])
    assert await expired(pool) == 0, "not even silent"
    await sleep(pool, 50)  # their leases would be over for twenty seconds
    await beat(pool, *running[3:])
    assert await expired(pool) == 0
    await beat(pool, running[0])
    await sleep(pool, 20)
    await beat(pool, *running[3:], running[0])
    assert await expired(pool) == 4, "forgiven once: two leases, two silent nodes"
    await pool.check()


async def test_two_of_many_are_not_the_servers_fault(pool: Pool) -> None:
    running = await many(pool, 9)
    await sleep(pool, 62)
    await beat(pool, *running[2:])
    assert await expired(pool) == 2
    await sleep(pool, 30)
    await beat(pool, *running[2:])
    assert await expired(pool) == 2, "and their leases after that"


async def test_nodes_that_fall_silent_one_after_the_other_are_not_forgiven(pool: Pool) -> None:
    running = await many(pool, 9)
    for number in range(1, 5):
        await sleep(pool, 55)
        await beat(pool, *running[number:])
        await expired(pool)
    assert await state(pool, running[0][0]) is NodeState.SILENT
    assert await pool.sql("SELECT forgiven_beat_at FROM leader") is None


async def test_an_old_leader_forgives_nothing(pool: Pool) -> None:
    await pool.started()
    await lead_until_now(pool)
    await sleep(pool, 120)
    old = pool.leads
    await pool.sql("UPDATE leader SET term = term + 1, expires_at = now() + interval '1 hour'")
    await expire.begin_term(pool.services, old)
    assert await pool.sql("SELECT forgiven_beat_at FROM leader") is None


async def test_silent_nodes_are_found_without_a_scan(pool: Pool) -> None:
    """It is asked each second; a node that was never heard of again is kept for ever."""
    await pool.offer()
    await pool.sql(
        "INSERT INTO nodes (id, account_id, name, state, own_tasks_only, description, cores,"
        " memory_bytes, disk_bytes, heartbeat_at)"
        " SELECT 'node_' || number, account_id, name, 'silent', own_tasks_only, description, cores,"
        " memory_bytes, disk_bytes, now() - interval '1 day'"
        " FROM nodes, generate_series(1, 3000) AS number"
    )
    await pool.sql("ANALYZE nodes, leader")
    moment, minute = datetime.now(UTC), timedelta(minutes=1)
    times = HeartbeatTimes(minute / 2, minute * 2, minute)
    queries = [
        (leases.silence(led_until=moment, times=times), "nodes_heard"),
        (nodes.fall_silent(silent_after=minute), "nodes_online"),
    ]
    async with pool.services.database.transaction() as connection:
        for (statement, *values), index in queries:
            plan = await connection.fetch(f"EXPLAIN {statement}", *values)
            plan_text = "\n".join(line for (line,) in plan)
            assert index in plan_text and "Seq Scan on nodes" not in plan_text, plan_text
