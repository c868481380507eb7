"""Attempts that run long are charged while they run."""

import pytest
from msgspec.structs import replace

from potluck.model.event import EventKind
from potluck.model.ids import AttemptId, NodeId
from potluck.model.task import EndReason, TaskState
from potluck.server.flow.housekeeping import expire
from potluck.server.flow.lease import lease
from potluck.server.flow.settle.slices import resolve_lost, settle_slices
from potluck.server.flow.submit import file_access
from potluck.wire.files import KeepCheckpoint
from potluck.wire.provider import Grant, Heartbeat
from tests.server.flow.blob_uploads import send_from_node
from tests.server.flow.pool import Pool, done, lease_of, used

pytestmark = pytest.mark.every_postgres

# A credit a second.
HOUR_MICRO = 3_600_000_000
SECOND_MICRO = 1_000_000
HOUR, MINUTE = 3600, 60
SLICE, CHECKPOINT = 300, 60
RICH = 10**12
PASSED = 20  # real seconds that a test may take
DUE = "SELECT extract(epoch FROM next_slice_at - now())::double precision FROM attempts"


def near(*seconds: float) -> object:
    return pytest.approx(seconds, abs=PASSED)


async def begin(
    pool: Pool, credit_micro: int = RICH, fee_basis_points: int = 0, **changes: object
) -> tuple[NodeId, Grant]:
    settings = replace(
        pool.services.settings,
        settle_seconds=float(SLICE),
        checkpoint_seconds=float(CHECKPOINT),
        fee_basis_points=fee_basis_points,
    )
    pool.services = replace(pool.services, settings=settings)
    await pool.give(pool.alice, credit_micro)
    return await pool.started(
        price_micro_per_hour=HOUR_MICRO, **{"run_seconds": 24.0 * HOUR, **changes}
    )


async def let_pass(pool: Pool, seconds: float) -> None:
    """As if all that happened had happened earlier."""
    await pool.sql(
        """UPDATE attempts SET started_at = started_at - how, next_slice_at = next_slice_at - how,
            checkpoint_at = checkpoint_at - how, fetched_at = fetched_at - how
        FROM make_interval(secs => $1) AS how""",
        float(seconds),
    )


async def run(pool: Pool, seconds: int, step: int = SLICE) -> None:
    for _ in range(seconds // step):
        await let_pass(pool, step)
        assert await settle_slices(pool.services, pool.leads) == 1


async def keep_checkpoint(pool: Pool, node_id: NodeId, grant: Grant, data: bytes = b"x") -> None:
    blob = await send_from_node(pool, node_id, grant, data)
    request = KeepCheckpoint(lease_of(grant), blob)
    await file_access.keep_checkpoint(pool.services, pool.bobs, node_id, request)


async def lose(pool: Pool) -> None:
    await pool.sql("UPDATE attempts SET lease_expires_at = now() - interval '1 second'")
    assert await expire.expire_once(pool.services, pool.leads) >= 1
    await pool.check()


async def seconds_of(pool: Pool) -> tuple[int, int, int]:
    """What Alice has spent or has held, what is held back for Bob, and what he was paid."""
    alice, bob = await pool.balance(pool.alice), await pool.balance(pool.bob)
    spent = RICH - alice.available_micro
    return tuple(  # type: ignore[return-value]
        round(micro / SECOND_MICRO) for micro in (spent, bob.held_back_micro, bob.available_micro)
    )


async def test_an_attempt_shorter_than_a_slice_writes_no_more_than_before(pool: Pool) -> None:
    node_id, grant = await begin(pool)
    await let_pass(pool, 100)
    assert await settle_slices(pool.services, pool.leads) == 0
    assert await pool.report(node_id, done(grant, usage=used(100))) == ["accepted"]
    kinds = await pool.sql("SELECT array_agg(kind ORDER BY id) FROM ledger_entries")
    assert kinds == ["grant"] * 2 + ["hold"] * 2 + ["charge", "reward", "refund", "refund"]
    await pool.check()


async def test_only_two_slices_and_a_checkpoint_are_held(pool: Pool) -> None:
    await begin(pool)
    assert await seconds_of(pool) == near(2 * SLICE + CHECKPOINT, 0, 0)
    await run(pool, HOUR)
    assert await seconds_of(pool) == near(HOUR + 2 * SLICE + CHECKPOINT, HOUR, 0)
    await pool.check()


async def test_the_end_pays_held_back_credit(pool: Pool) -> None:
    node_id, grant = await begin(pool)
    await run(pool, HOUR)
    await let_pass(pool, 50)
    assert await pool.report(node_id, done(grant, usage=used(HOUR + 50))) == ["accepted"]
    assert await seconds_of(pool) == near(HOUR + 50, 0, HOUR + 50)
    await pool.check()


async def test_a_lower_figure_of_the_node_itself_is_what_it_costs(pool: Pool) -> None:
    node_id, grant = await begin(pool)
    await run(pool, HOUR)
    assert await pool.report(node_id, done(grant, usage=used(1000))) == ["accepted"]
    assert await seconds_of(pool) == near(1000, 0, 1000)
    await pool.check()


async def test_a_slice_is_charged_once(pool: Pool) -> None:
    await begin(pool)
    await run(pool, SLICE)
    before = await seconds_of(pool)
    await pool.sql("UPDATE attempts SET slices = 0")
    await run(pool, SLICE)
    assert await seconds_of(pool) == near(*before)


async def test_a_day_whose_node_dies_costs_the_time_up_to_the_last_checkpoint(pool: Pool) -> None:
    node_id, grant = await begin(pool)
    worked = 19 * HOUR + 50 * MINUTE
    await run(pool, worked, step=10 * MINUTE)
    await keep_checkpoint(pool, node_id, grant)
    await run(pool, 10 * MINUTE)
    await lose(pool)
    spent, held_back, paid = await seconds_of(pool)
    assert (spent, held_back + paid) == near(20 * HOUR, 20 * HOUR), "it may be re-adopted"
    assert await resolve_lost(pool.services, pool.leads) == 0
    await pool.offer(price_micro_per_hour=HOUR_MICRO)
    await pool.plan()
    assert await resolve_lost(pool.services, pool.leads) == 1
    held_seconds = 2 * SLICE + CHECKPOINT
    assert await seconds_of(pool) == near(worked + held_seconds, 0, worked)
    await pool.check()


async def test_without_a_checkpoint_lost_work_costs_nothing(pool: Pool) -> None:
    _, grant = await begin(pool)
    await run(pool, HOUR)
    await lose(pool)
    await pool.sql("UPDATE tasks SET not_before = now() + interval '1 hour'")
    await pool.sql(
        "UPDATE tasks SET state = 'cancelled', finished_at = now(), reason = 'cancelled'"
    )
    assert await resolve_lost(pool.services, pool.leads) == 1
    assert await seconds_of(pool) == near(0, 0, 0)
    assert (await pool.task(grant.task_id)).charge_micro == 0


async def test_lost_and_taken_back_is_charged_once(pool: Pool) -> None:
    node_id, grant = await begin(pool)
    await run(pool, HOUR)
    await lose(pool)
    await let_pass(pool, 30 * MINUTE)
    assert await pool.beat(node_id, lease_of(grant)) == []
    assert await settle_slices(pool.services, pool.leads) == 1
    await run(pool, 10 * MINUTE)
    assert await pool.report(node_id, done(grant, usage=used(2 * HOUR))) == ["accepted"]
    total = HOUR + 30 * MINUTE + 10 * MINUTE
    assert await seconds_of(pool) == near(total, 0, total)
    await pool.check()


async def test_time_beyond_the_hold_is_charged_from_the_credit(pool: Pool) -> None:
    """As after an outage of the server, in which no slice was charged."""
    node_id, grant = await begin(pool)
    await let_pass(pool, 3 * HOUR)
    assert await pool.report(node_id, done(grant, usage=used(3 * HOUR))) == ["accepted"]
    assert await seconds_of(pool) == near(3 * HOUR, 0, 3 * HOUR)
    await pool.check()


async def test_the_operators_fee_is_a_part_of_each_reward(pool: Pool) -> None:
    node_id, grant = await begin(pool, fee_basis_points=500)
    await run(pool, HOUR)
    await pool.sql("UPDATE attempts SET checkpoint_at = now()")
    await run(pool, SLICE)
    assert (await seconds_of(pool))[2] == pytest.approx(HOUR * 0.95, abs=PASSED)
    assert await pool.report(node_id, done(grant, usage=used(HOUR + SLICE))) == ["accepted"]
    total = HOUR + SLICE
    assert await seconds_of(pool) == near(total, 0, total * 0.95)
    fees = await pool.sql("SELECT sum(amount_micro) FROM ledger_entries WHERE purse = 'fees'")
    assert float(fees) / SECOND_MICRO == pytest.approx(total * 0.05, abs=PASSED)
    await pool.check()


async def test_a_task_without_credit_is_stopped_in_time_and_waits_for_more(pool: Pool) -> None:
    credit = 15 * MINUTE * SECOND_MICRO
    node_id, grant = await begin(pool, credit)
    unfunded: list[AttemptId] = []
    while not unfunded:
        await let_pass(pool, await pool.sql(DUE))
        assert await settle_slices(pool.services, pool.leads) == 1
        heartbeat = Heartbeat((lease_of(grant),))
        unfunded = (await lease.heartbeat(pool.services, pool.bobs, node_id, heartbeat)).unfunded
    assert unfunded == [grant.attempt_id]
    kinds = await pool.sql("SELECT array_agg(kind) FROM events")
    assert kinds.count(EventKind.ATTEMPT_UNFUNDED) == 1
    await let_pass(pool, 30)
    ran_seconds = await pool.sql(
        "SELECT extract(epoch FROM now() - started_at)::integer FROM attempts"
    )
    assert ran_seconds == pytest.approx(14 * MINUTE + 30, abs=PASSED)
    finish = done(grant, EndReason.CREDIT, usage=used(ran_seconds))
    assert await pool.report(node_id, finish) == ["accepted"]
    task = await pool.task(grant.task_id)
    assert (task.state, task.reason) == (TaskState.QUEUED, EndReason.CREDIT)
    assert (await pool.balance(pool.bob)).available_micro == ran_seconds * SECOND_MICRO
    assert (await pool.balance(pool.alice)).available_micro == credit - ran_seconds * SECOND_MICRO
    await pool.check()
    assert not (await pool.plan()).assigned, "it needs as much as before to start"
    await pool.give(pool.alice, RICH)
    assert len((await pool.plan()).assigned) == 1


async def test_a_node_that_does_not_stop_is_stopped_when_the_credit_is_used_up(pool: Pool) -> None:
    credit = 11 * MINUTE * SECOND_MICRO
    node_id, grant = await begin(pool, credit)
    for _ in range(3):  # two slices, and the time for a checkpoint
        await let_pass(pool, await pool.sql(DUE))
        assert await settle_slices(pool.services, pool.leads) == 1
    assert (await pool.task(grant.task_id)).state is TaskState.QUEUED
    assert await pool.beat(node_id, lease_of(grant)) == [grant.attempt_id]
    paid = (await pool.balance(pool.bob)).available_micro
    remaining = (await pool.balance(pool.alice)).available_micro
    assert paid + remaining == credit
    # Kept for a leader that looks late, twice; and the machine's clock may be corrected meanwhile.
    late_seconds = 2 * pool.services.settings.settle_poll_seconds
    assert remaining < (late_seconds + 1) * SECOND_MICRO
    await pool.check()


async def test_a_node_cannot_claim_by_itself_that_the_credit_ran_out(pool: Pool) -> None:
    """It would be paid for what it drops."""
    node_id, grant = await begin(pool)
    assert await pool.report(node_id, done(grant, EndReason.CREDIT)) == ["invalid_input"]
