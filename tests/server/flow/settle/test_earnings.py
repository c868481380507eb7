"""What an owner's machines have earned: by day, node and device, as the ledger has it."""

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from potluck.model.task import EndReason
from potluck.model.usage import Usage
from potluck.server.flow.housekeeping import expire
from potluck.store.ledger import earnings
from potluck.wire.own_machines import Earnings, UsedInAll
from potluck.wire.provider import Grant, NodeRegistered, Started
from tests.server.flow.pool import Pool, done, lease_of, used
from tests.server.flow.schedule.arrays import succeeded

HOUR_MICRO = 3_600_000_000  # a micro-credit for each microsecond
DAY = timedelta(days=1)


async def earned(
    pool: Pool, since: datetime | None = None, before: datetime | None = None
) -> Earnings:
    now = datetime.now(UTC)
    async with pool.services.database.transaction() as connection:
        return await earnings.read_earnings(
            connection, pool.bob, since or now - DAY, before or now + DAY
        )


async def work(
    pool: Pool, node: NodeRegistered, devices: int = 1, reason: EndReason = EndReason.COMPLETED
) -> Grant:
    """A task of half a second on this node, whose end the server hears of later."""
    await pool.submit(device_count=devices, run_seconds=10.0)
    await pool.plan()
    (grant,) = await pool.fetch(node.node_id)
    await pool.report(node.node_id, Started(lease_of(grant)))
    await pool.sql(
        "UPDATE attempts SET started_at = started_at - interval '5 s' WHERE id = $1",
        grant.attempt_id,
    )
    assert await pool.report(node.node_id, done(grant, reason, usage=used(0.5))) == ["accepted"]
    return grant


async def _put_back(pool: Pool, grant: Grant, ago: timedelta) -> None:
    """As if it had ended, and been paid, so long ago."""
    async with pool.services.database.transaction() as connection:
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute(
            "UPDATE attempts SET finished_at = finished_at - $2::interval,"
            " started_at = started_at - $2::interval WHERE id = $1",
            grant.attempt_id,
            ago,
        )
        await connection.execute(
            "UPDATE ledger_entries SET created_at = created_at - $2::interval"
            " WHERE attempt_id = $1",
            grant.attempt_id,
            ago,
        )


async def test_each_day_node_and_device_has_its_line(pool: Pool) -> None:
    await pool.give(pool.alice, 10**12)
    node = await pool.offer(devices=2, price_micro_per_hour=HOUR_MICRO)
    first, second_attempt = await work(pool, node), await work(pool, node)
    both = await work(pool, node, devices=2)
    long_ago = await work(pool, node)
    for grant, ago in ((both, DAY), (long_ago, 40 * DAY)):
        await _put_back(pool, grant, ago)
    total = await earned(pool, datetime.now(UTC) - 30 * DAY)
    assert {line.device_id for line in total.earned} == {
        first.devices[0].device_id,
        second_attempt.devices[0].device_id,
        None,  # nobody knows what each of several has earned
    }
    days = [line.day for line in total.earned]
    assert days == sorted(days, reverse=True) and len(set(days)) == 2
    assert {(line.node_id, line.node_name) for line in total.earned} == {(node.node_id, "attic")}
    assert (total.attempts, sum(line.attempts for line in total.earned)) == (3, 3)
    assert total.earned_micro == sum(line.earned_micro for line in total.earned)
    assert total.earned_micro == 500_000 * 4, "two tasks on one card, and one on two"
    assert total.worked_seconds == 2.0, "half a second of each device"
    all_earnings = await earned(pool, datetime.now(UTC) - 90 * DAY)
    assert all_earnings.earned_micro == (await pool.balance(pool.bob)).available_micro
    assert all_earnings.attempts == 4


async def test_failed_attempts_count_and_free_ones_earn_nothing(pool: Pool) -> None:
    node = await pool.offer()
    await work(pool, node, reason=EndReason.SIGNAL)
    total = await earned(pool)
    assert (total.attempts, total.earned_micro) == (1, 0)
    assert total.earned[0].attempts == 1


async def test_a_paid_amount_is_kept_when_an_attempt_is_readopted(pool: Pool) -> None:
    await pool.give(pool.alice, 10**12)
    node = await pool.offer(price_micro_per_hour=HOUR_MICRO)
    await pool.submit(items=4, run_seconds=100.0)
    await pool.plan()
    (grant,) = await pool.fetch(node.node_id)
    await pool.report(node.node_id, Started(lease_of(grant)))
    await pool.sql("UPDATE attempts SET started_at = started_at - interval '50 s'")
    await pool.report(node.node_id, succeeded(grant, grant.items[0].start, seconds=5.0))
    await pool.sql("UPDATE attempts SET lease_expires_at = now() - interval '1 s'")
    await expire.expire_once(pool.services, pool.leads)
    paid = (await pool.balance(pool.bob)).available_micro
    lost_earnings = await earned(pool)
    assert paid > 0 and (lost_earnings.earned_micro, lost_earnings.attempts) == (paid, 1)
    await pool.beat(node.node_id, lease_of(grant))
    readopted_earnings = await earned(pool)
    assert (readopted_earnings.earned_micro, readopted_earnings.attempts) == (paid, 0), "it runs"


async def test_earnings_without_ended_attempts_are_empty(pool: Pool) -> None:
    await pool.started()
    now = datetime.now(UTC)
    assert await earned(pool, now - DAY, now) == Earnings(now - DAY, now, 0, 0.0, 0, 0, [])


async def test_resource_usage_is_shown_to_the_owner(pool: Pool) -> None:
    node = await pool.offer()
    assert (await earned(pool)).used == UsedInAll()
    measured = Usage(cpu_seconds=2, device_seconds=1, input_bytes=10, output_bytes=2**63 - 1)
    for joules in (None, 50.0):
        await pool.submit()
        await pool.plan()
        (grant,) = await pool.fetch(node.node_id)
        await pool.report(node.node_id, Started(lease_of(grant)))
        usage = replace(measured, energy_joules=joules)
        assert await pool.report(node.node_id, done(grant, usage=usage)) == ["accepted"]
    total = await earned(pool)
    in_all = UsedInAll(4.0, 2.0, 50.0, 20, 2**63 - 1)
    assert total.used == in_all
    assert [line.used for line in total.earned] == [in_all]
