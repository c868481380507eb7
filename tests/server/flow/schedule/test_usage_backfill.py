"""Who had how much of the pool is known again by a leader that has just begun."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from potluck.decide.account import HALF_LIFE_SECONDS, SchedulerAccount, decayed_use
from potluck.model.ids import AccountId, TaskId, first_id_at
from potluck.server.flow.submit import submit
from potluck.server.leader.memory import LeaderMemory
from potluck.server.leader.usage_backfill import UsageBackfill
from potluck.server.loops.schedule import ScheduleLoop
from potluck.store.database import Connection
from potluck.store.sql_files import load
from tests.server.flow.pool import Pool, done, request

HOUR = 3600.0


async def test_a_new_leader_knows_who_has_just_used_the_pool(pool: Pool) -> None:
    """Alice asks first, and Bob has had nothing yet."""
    settings = replace(pool.services.settings, schedule_poll_seconds=0.05)
    pool.services = replace(pool.services, settings=settings)
    await _use_for_hours(pool)
    loop = ScheduleLoop(pool.services, pool.leads, LeaderMemory(pool.services))
    for _ in range(4):  # loads, and then remembers
        await loop.run_once()
    alices = await pool.submit()
    bobs = await submit.submit(pool.services, pool.bob, request(), None)
    await loop.run_once()
    assert [await _state(pool, task_id) for task_id in (alices.id, bobs.id)] == [
        "queued",
        "assigned",
    ]


@pytest.mark.parametrize("end", ["now() - interval '1 h'", "NULL"])
async def test_backfilled_use_of_attempts_over_a_day_old_equals_counted_use(
    pool: Pool, end: str
) -> None:
    """Thirty hours, of which most were in this day; over, or still going on."""
    await pool.offer()
    await pool.submit()
    await pool.plan()
    attempt_id = first_id_at("attempt", datetime.now(UTC) - timedelta(hours=31))
    async with pool.services.database.transaction() as connection:
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute(
            f"""
            UPDATE attempts SET id = '{attempt_id}', assigned_at = now() - interval '31 h',
                finished_at = {end}, state = CASE WHEN {end} IS NULL THEN state ELSE 'failed' END
            """
        )
        await connection.execute(f"UPDATE attempt_devices SET attempt_id = '{attempt_id}'")
    memory = LeaderMemory(pool.services)
    await memory.begin()
    recall = UsageBackfill(pool.services, memory)
    while not recall.is_over:
        await recall.run_once()
    has, ended_at = (1000, memory.now) if end == "NULL" else (0, memory.now - HOUR)
    had = decayed_use(1000, memory.now - 31 * HOUR, ended_at, memory.now)
    used = memory.known.scheduler._accounts[pool.alice].use(memory.now)
    assert used == pytest.approx(had + has * HALF_LIFE_SECONDS, rel=1e-4)


async def _use_for_hours(pool: Pool) -> None:
    node = await pool.offer()
    await pool.submit()
    await pool.plan()
    (grant,) = await pool.fetch(node.node_id)
    await pool.report(node.node_id, done(grant))
    await pool.sql(
        """
        UPDATE attempts SET assigned_at = now() - interval '5 h',
            finished_at = now() - interval '1 h'
        """
    )


async def _state(pool: Pool, task_id: TaskId) -> str:
    task_state: str = await pool.sql("SELECT state FROM tasks WHERE id = $1", task_id)
    return task_state


def test_backfilled_use_equals_counted_use() -> None:
    """The same use, counted all along by one leader and read back by the next."""
    counted, recalled = SchedulerAccount(AccountId("a")), SchedulerAccount(AccountId("b"))
    counted.have(500, 0.0)
    counted.have(-500, 3 * HOUR)
    recalled.recall(decayed_use(500, 0.0, 3 * HOUR, 5 * HOUR), 5 * HOUR)
    assert recalled.use(8 * HOUR) == pytest.approx(counted.use(8 * HOUR))
    late_account = SchedulerAccount(AccountId("c"))
    late_account.use(7 * HOUR)  # had its turns before the reading came to it
    late_account.recall(decayed_use(500, 0.0, 3 * HOUR, 5 * HOUR), 5 * HOUR)
    assert late_account.use(8 * HOUR) == pytest.approx(counted.use(8 * HOUR))
    assert decayed_use(1000, 9.0, 5.0, 9.0) == 0.0
    assert decayed_use(1000, -HALF_LIFE_SECONDS - 1, -HALF_LIFE_SECONDS, 0.0) == pytest.approx(
        500, rel=1e-3
    )


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_a_day_of_attempts_is_a_range_of_the_primary_key(pool: Pool, mode: str) -> None:
    await _use_for_hours(pool)
    await pool.sql(
        """
        INSERT INTO attempts (
            id, task_id, node_id, consumer_id, provider_id, number, state, cores, memory_bytes,
            disk_bytes, price_micro_per_hour, hold_micro, run_seconds_limit,
            prepare_seconds_limit, log_bytes_limit, lease_expires_at, finished_at)
        SELECT 'attempt_0' || lpad(each::text, 25, '0'), task_id, node_id, consumer_id,
            provider_id, each, state, cores, memory_bytes, disk_bytes, 0, 0, 1, 1, 1, now(), now()
        FROM attempts, generate_series(2, 10000) AS each
        """
    )
    await pool.sql(
        """
        INSERT INTO attempt_devices (attempt_id, device_id, milli)
        SELECT attempts.id, devices.id, 1000 FROM attempts, devices WHERE number > 1
        """
    )
    async with pool.services.database.transaction() as connection:
        await connection.execute("ANALYZE attempts, attempt_devices")
        await connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
        day = await _explain(
            connection, "text", load("recent").uses.text, "'attempt_00', 'attempt_z', 1000"
        )
        before = await _explain(
            connection, "timestamptz", load("recent").long_uses.text, "now(), 'attempt_z', 1000"
        )
    assert "Seq Scan" not in day and "Sort" not in day
    assert '"Index Name": "attempts_pkey"' in day
    assert "Seq Scan" not in before and '"Index Name": "attempts_long"' in before


async def _explain(connection: Connection, since: str, statement: str, parameters: str) -> str:
    await connection.execute(f"PREPARE used ({since}, text, bigint) AS {statement}")
    plan: str = await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE used ({parameters})")
    await connection.execute("DEALLOCATE used")
    return plan
