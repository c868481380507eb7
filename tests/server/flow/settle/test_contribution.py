"""What devices offered, worked and earned; it agrees with the earnings."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from potluck.model.device import Availability
from potluck.model.ids import NodeId
from potluck.server.accounts import administration
from potluck.server.flow.housekeeping import expire
from potluck.server.flow.lease import lease
from potluck.store.ledger.contribution import read_contribution
from potluck.store.ledger.earnings import read_earnings
from potluck.wire.device_status import DeviceStatus
from potluck.wire.money.rewards import Contribution, DeviceContribution
from potluck.wire.provider import Heartbeat, Started
from tests.server.flow.pool import Pool, done, lease_of, used
from tests.server.flow.settle.test_slices import begin, keep_checkpoint, run

pytestmark = pytest.mark.every_postgres

HOUR = 3600
HOUR_MICRO = 3_600_000_000
SECOND_MICRO = 1_000_000
PASSED = 20  # real seconds that a test may take


def midnight(days_ago: int = 0) -> datetime:
    now = datetime.now(UTC)
    return datetime(now.year, now.month, now.day, tzinfo=UTC) - timedelta(days=days_ago)


async def contributed(
    pool: Pool, since: datetime | None = None
) -> tuple[Contribution, list[DeviceContribution]]:
    async with pool.services.database.transaction() as connection:
        contribution = await read_contribution(connection, pool.bob, since or midnight(2))
    assert contribution is not None
    return contribution


async def offered(pool: Pool) -> float:
    return (await contributed(pool))[0].offered_seconds


async def let_offers_pass(pool: Pool, seconds: float) -> None:
    """As if devices had been offered for longer, and heartbeats had come until now."""
    await pool.sql("UPDATE device_offers SET since = since - make_interval(secs => $1)", seconds)


def near(seconds: float) -> object:
    return pytest.approx(seconds, abs=PASSED)


async def tell(pool: Pool, node_id: NodeId, availability: Availability) -> None:
    uuid = f"{pool.machines[node_id]}-0"
    heartbeat = Heartbeat((), devices=(DeviceStatus(uuid, availability),))
    await lease.heartbeat(pool.services, pool.bobs, node_id, heartbeat)


async def test_a_device_is_offered_from_its_registration_on(pool: Pool) -> None:
    assert await offered(pool) == 0
    await pool.offer(devices=2)
    await let_offers_pass(pool, HOUR)
    assert await offered(pool) == near(2 * HOUR)


async def test_time_that_a_device_was_paused_is_not_offered(pool: Pool) -> None:
    node = await pool.offer()
    await let_offers_pass(pool, HOUR)
    await tell(pool, node.node_id, Availability.PAUSED)
    assert await pool.sql("SELECT count(*) FROM device_offers") == 0
    assert await offered(pool) == near(HOUR)
    await tell(pool, node.node_id, Availability.AVAILABLE)
    await let_offers_pass(pool, HOUR)
    assert await offered(pool) == near(2 * HOUR)


async def test_a_node_that_falls_silent_offered_until_its_last_heartbeat(pool: Pool) -> None:
    await pool.offer()
    await let_offers_pass(pool, 2 * HOUR)
    await pool.sql("UPDATE nodes SET heartbeat_at = now() - interval '1 hour'")
    await expire.expire_once(pool.services, pool.leads)
    assert await pool.sql("SELECT state FROM nodes") == "silent"
    assert await offered(pool) == near(HOUR)


async def test_a_node_that_left_or_is_cordoned_offers_nothing(pool: Pool) -> None:
    node = await pool.offer()
    await let_offers_pass(pool, HOUR)
    await administration.cordon(pool.services, pool.alice, node.node_id, "")
    assert await pool.sql("SELECT count(*) FROM device_offers") == 0
    await administration.uncordon(pool.services, pool.alice, node.node_id)
    await let_offers_pass(pool, HOUR)
    await lease.leave(pool.services, pool.bobs, node.node_id)
    assert await pool.sql("SELECT count(*) FROM device_offers") == 0
    assert await offered(pool) == near(2 * HOUR)


async def test_registering_again_goes_on(pool: Pool) -> None:
    node = await pool.offer()
    await let_offers_pass(pool, HOUR)
    await pool.offer(node.node_id)
    assert await offered(pool) == near(HOUR)


async def test_offers_are_counted_for_each_day(pool: Pool) -> None:
    node = await pool.offer()
    before = (datetime.now(UTC) - midnight()).total_seconds()
    await let_offers_pass(pool, before + HOUR)
    await tell(pool, node.node_id, Availability.PAUSED)
    yesterday = await pool.sql("SELECT offered_seconds FROM device_days ORDER BY day LIMIT 1")
    assert yesterday == near(HOUR)
    today, _ = await contributed(pool, midnight())
    assert today.offered_seconds == near(before)


async def test_heartbeats_and_assignments_write_nothing_of_offers(pool: Pool) -> None:
    node_id, grant = await pool.started()
    before = await pool.sql("SELECT array_agg(xmin::text) FROM device_offers")
    for _ in range(3):
        await pool.beat(node_id, lease_of(grant))
    await pool.report(node_id, done(grant))
    assert await pool.sql("SELECT array_agg(xmin::text) FROM device_offers") == before
    assert await pool.sql("SELECT count(*) FROM device_days") == 0


async def work(pool: Pool, node_id: NodeId, devices: int = 1, milli: int | None = None) -> None:
    """Ten minutes assigned, of which five were worked, on these devices."""
    await pool.submit(device_count=devices, device_milli=milli)
    await pool.plan()
    (grant,) = await pool.fetch(node_id)
    await pool.report(node_id, Started(lease_of(grant)))
    await pool.sql(
        "UPDATE attempts SET assigned_at = assigned_at - interval '10 min',"
        " started_at = started_at - interval '6 min' WHERE id = $1",
        grant.attempt_id,
    )
    assert await pool.report(node_id, done(grant, usage=used(300))) == ["accepted"]


async def test_each_device_has_its_line_and_the_sum_agrees_with_the_earnings(pool: Pool) -> None:
    await pool.give(pool.alice, 10**12)
    settings = replace(pool.services.settings, fee_basis_points=100)
    pool.services = replace(pool.services, settings=settings)
    node = await pool.offer(devices=2, price_micro_per_hour=HOUR_MICRO)
    for devices in (1, 1, 2):
        await work(pool, node.node_id, devices)
    await work(pool, node.node_id, milli=500)
    total, lines = await contributed(pool)
    async with pool.services.database.transaction() as connection:
        report = await read_earnings(
            connection, pool.bob, midnight(2), datetime.now(UTC) + timedelta(minutes=1)
        )
    assert total.earned_micro == 4.5 * 300 * SECOND_MICRO
    assert total.fee_micro == total.earned_micro // 100
    assert total.attempts == 4
    for name in ("earned_micro", "fee_micro", "attempts", "worked_seconds"):
        assert getattr(report, name) == pytest.approx(getattr(total, name))
    assert total.worked_seconds == pytest.approx(4.5 * 300)
    assert total.assigned_seconds == pytest.approx(4.5 * 600, abs=4 * PASSED)
    by_device = {line.device_id: line.contribution for line in lines}
    pool_line = by_device[None]
    assert (pool_line.earned_micro, pool_line.worked_seconds) == (600 * SECOND_MICRO, 0)
    for name in ("earned_micro", "fee_micro", "attempts", "worked_seconds"):
        parts = [getattr(line.contribution, name) for line in lines]
        assert sum(parts) == pytest.approx(getattr(total, name))
    assert {line.model for line in lines} == {"RTX 4090", ""}


async def test_running_attempts_count_until_now_with_held_back_credit(pool: Pool) -> None:
    node_id, grant = await begin(pool)
    await run(pool, 600)
    total, _ = await contributed(pool)
    assert total.worked_seconds == near(600)
    assert total.held_back_micro >= 600 * SECOND_MICRO
    assert total.earned_micro == total.held_back_micro
    await keep_checkpoint(pool, node_id, grant)
    await run(pool, 300)
    after, _ = await contributed(pool)
    assert 0 < after.held_back_micro < after.earned_micro


async def test_devices_of_other_accounts_are_hidden(pool: Pool) -> None:
    await pool.offer()
    async with pool.services.database.transaction() as connection:
        contribution = await read_contribution(connection, pool.alice, midnight(2))
    assert contribution is not None
    total, devices = contribution
    assert devices == [] and total.offered_seconds == 0


async def test_adding_up_for_long_is_given_up(pool: Pool) -> None:
    """Here it waits for a lock; a year of many devices takes long by itself."""
    database = pool.services.database
    async with database.transaction() as holder:
        await holder.execute("LOCK TABLE ledger_entries IN ACCESS EXCLUSIVE MODE")
        async with database.transaction() as connection:
            assert await read_contribution(connection, pool.bob, midnight(2), "50ms") is None
    assert await contributed(pool)
