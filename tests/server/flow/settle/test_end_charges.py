"""Who pays for attempts that end without a result, and which nodes are trusted less for them."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from potluck.decide.failure_record import FEWEST_ENDS, FIRST_SPARED, PAID_FOR_SPARED, SHORT_SECONDS
from potluck.model.account import Role
from potluck.model.error import InvalidInput
from potluck.model.ids import NodeId
from potluck.model.task import EndReason, TaskState
from potluck.server.flow.schedule.explain_node import explain_node
from potluck.server.flow.settle.slices import judge_failures
from potluck.store.attempts import attempts
from potluck.store.identity import accounts
from potluck.wire.consumer import TaskView
from potluck.wire.provider import Grant, Started
from tests.server.flow.pool import Pool, done, lease_of, used
from tests.wallets import Wallet

# A credit a second.
HOUR_MICRO = 3_600_000_000
SECOND_MICRO = 1_000_000


async def second_owner(pool: Pool) -> Pool:
    """The same pool, as Carol's machines see it."""
    async with pool.services.database.transaction() as connection:
        carol = await accounts.add(connection, Wallet("carol").address, {Role.PROVIDER})
    assert carol is not None
    return Pool(pool.services, pool.alice, carol.id, pool.leads)


async def begin(owner: Pool, node_id: NodeId, text: str = "") -> Grant:
    """The attempt that waits for this node, begun ten seconds ago, after any pause."""
    await owner.sql("UPDATE tasks SET not_before = NULL")
    await owner.plan()
    (grant,) = await owner.fetch(node_id)
    await owner.report(node_id, Started(lease_of(grant)))
    if text:
        await owner.say(node_id, lease_of(grant), 0, text)
    antedate = "UPDATE attempts SET started_at = started_at - interval '10 s' WHERE id = $1"
    await owner.sql(antedate, grant.attempt_id)
    return grant


async def run(owner: Pool, node_id: NodeId, reason: EndReason, text: str = "") -> Grant:
    grant = await begin(owner, node_id, text)
    finish = done(grant, reason, usage=used(10))
    assert await owner.report(node_id, finish) == ["accepted"]
    return grant


async def pass_time(owner: Pool, grant: Grant, seconds: float) -> None:
    """As if it had begun earlier."""
    await owner.sql(
        "UPDATE attempts SET started_at = started_at - make_interval(secs => $2) WHERE id = $1",
        grant.attempt_id,
        float(seconds),
    )


async def succeed(owner: Pool, node_id: NodeId, seconds: float) -> Grant:
    grant = await begin(owner, node_id)
    await pass_time(owner, grant, seconds)
    assert await owner.report(node_id, done(grant, usage=used(seconds))) == ["accepted"]
    return grant


async def fail_after(owner: Pool, node_id: NodeId, seconds: float) -> Grant:
    """With a log, as a node can make it up."""
    grant = await begin(owner, node_id, "epoch 1\n")
    await pass_time(owner, grant, seconds)
    finish = done(grant, EndReason.EXIT_STATUS, exit_code=1, usage=used(seconds))
    assert await owner.report(node_id, finish) == ["accepted"]
    return grant


async def fail_long(pool: Pool, max_attempts: int = 3) -> Grant:
    """A task of Alice fails on a new node of Bob after 14,000 s."""
    await pool.give(pool.alice, 10**11)
    node_id = await priced_node(pool)
    await pool.submit(run_seconds=20_000.0, max_attempts=max_attempts)
    return await fail_after(pool, node_id, 14_000)


async def let_days_pass(pool: Pool, days: int) -> None:
    """As if the attempts had ended earlier."""
    await pool.sql(
        "UPDATE attempts SET started_at = started_at - make_interval(days => $1),"
        " finished_at = finished_at - make_interval(days => $1)",
        days,
    )


async def rewards(pool: Pool) -> tuple[int, int, int]:
    """Seconds that are held back for Bob, that he was paid, and that the operator got."""
    bob = await pool.balance(pool.bob)
    fees = await pool.sql(
        "SELECT coalesce(sum(amount_micro), 0)::bigint FROM ledger_entries WHERE purse = 'fees'"
    )
    return tuple(  # type: ignore[return-value]
        round(micro / SECOND_MICRO) for micro in (bob.held_back_micro, bob.available_micro, fees)
    )


async def priced_node(owner: Pool) -> NodeId:
    return (await owner.offer(price_micro_per_hour=HOUR_MICRO)).node_id


async def outliers(pool: Pool, node_id: NodeId) -> int:
    outlier_count: int = await pool.sql("SELECT outlier_attempts FROM nodes WHERE id = $1", node_id)
    return outlier_count


@pytest.mark.parametrize(
    ("text", "paid", "run_seconds", "charged"),
    [
        pytest.param("", 0, 10, 1, id="silent"),
        pytest.param("", 0, 700, 3, id="silent and long, of a new account"),
        pytest.param("", 200_000, 700, 1, id="silent and long"),
        pytest.param("epoch 1\n", 0, 10, 3, id="log"),
    ],
)
async def test_a_consumer_pays_for_one_attempt_that_left_nothing(
    pool: Pool, text: str, paid: int, run_seconds: int, charged: int
) -> None:
    """Else a node that idles and says `time_limit` earns the budget of all attempts."""
    await pool.give(pool.alice, 10**12)
    node_id = await priced_node(pool)
    if paid:
        await pool.submit(name="earlier", run_seconds=float(paid))
        await succeed(pool, node_id, paid)
    task = await pool.submit(run_seconds=float(run_seconds), max_attempts=3)
    for _ in range(3):
        grant = await begin(pool, node_id, text)
        await pass_time(pool, grant, run_seconds)
        report = done(grant, EndReason.TIME_LIMIT, usage=used(run_seconds))
        assert await pool.report(node_id, report) == ["accepted"]
    task_view = await pool.task(task.id)
    assert (task_view.state, task_view.reason) == (TaskState.FAILED, EndReason.TIME_LIMIT)
    cost = (paid + charged * run_seconds) * SECOND_MICRO
    bob = await pool.balance(pool.bob)
    assert bob.available_micro + bob.held_back_micro == cost
    assert (await pool.balance(pool.alice)).available_micro == 10**12 - cost
    await pool.check()


async def test_attempts_that_fail_in_one_moment_on_many_nodes_are_spared_exactly(
    pool: Pool,
) -> None:
    """Each transaction waits for the others of the account, and sees what they spared."""
    await pool.give(pool.alice, 10**9)
    started_attempts: list[tuple[NodeId, Grant]] = []
    for _ in range(6):
        node_id = await priced_node(pool)
        await pool.submit(run_seconds=10.0, max_attempts=2)
        started_attempts.append((node_id, await begin(pool, node_id)))
    ends = [
        pool.report(node_id, done(grant, EndReason.TIME_LIMIT, usage=used(10)))
        for node_id, grant in started_attempts
    ]
    assert await asyncio.gather(*ends) == [["accepted"]] * 6
    assert await pool.sql("SELECT count(*) FROM attempts WHERE is_spared") == FIRST_SPARED
    charged = (6 - FIRST_SPARED) * 10 * SECOND_MICRO
    assert (await pool.balance(pool.bob)).available_micro == charged
    await pool.check()


async def test_payments_to_others_raise_the_spared_amount(pool: Pool) -> None:
    """A hundredth of it; what it paid to itself does not count."""
    await pool.give(pool.alice, 10**9)
    node_id = await priced_node(pool)
    await pool.submit(run_seconds=10.0)
    paid = await run(pool, node_id, EndReason.COMPLETED)
    task = await pool.submit(run_seconds=10.0, max_attempts=9)
    for _ in range(FIRST_SPARED + 1):
        await run(pool, node_id, EndReason.TIME_LIMIT)
    spared = "SELECT count(*) FROM attempts WHERE is_spared"
    assert await pool.sql(spared) == FIRST_SPARED
    much = "UPDATE attempts SET charge_micro = $1, provider_id = $2 WHERE id = $3"
    worth = PAID_FOR_SPARED * (FIRST_SPARED + 1) * 11 * SECOND_MICRO
    await pool.sql(much, worth, pool.alice, paid.attempt_id)
    await run(pool, node_id, EndReason.TIME_LIMIT)
    assert await pool.sql(spared) == FIRST_SPARED
    await pool.sql(much, worth, pool.bob, paid.attempt_id)
    await run(pool, node_id, EndReason.TIME_LIMIT)
    await run(pool, node_id, EndReason.TIME_LIMIT)
    assert await pool.sql(spared) == FIRST_SPARED + 1
    assert (await pool.task(task.id)).state is TaskState.QUEUED


async def test_an_owner_whose_outliers_took_long_for_others_is_not_believed(pool: Pool) -> None:
    """However few they are: it may idle for the longest time allowed, and make up a log."""
    node_id, grant = await pool.started()
    await pool.report(node_id, done(grant))
    task = await pool.submit(max_attempts=2)
    now = await begin(pool, node_id)

    async def is_doubted() -> bool:
        async with pool.services.database.transaction() as connection:
            records = await attempts.failure_records(connection, [now.attempt_id])
        return records[now.attempt_id].is_node_doubted

    assert now.task_id == task.id and not await is_doubted()
    costly = "UPDATE attempts SET is_outlier = true, consumer_id = $1 WHERE id = $2"
    await pool.sql(costly, pool.alice, grant.attempt_id)
    assert not await is_doubted(), "nobody makes a node doubted to be spared there"
    await pool.sql(costly, pool.bob, grant.attempt_id)
    assert await is_doubted()


async def test_a_failure_that_another_owner_refutes_is_not_paid_and_is_counted(pool: Pool) -> None:
    await pool.give(pool.alice, 10**9)
    idle, spare = await priced_node(pool), await priced_node(pool)
    task = await pool.submit(run_seconds=10.0, max_attempts=3)
    await pool.plan()
    chosen_node = idle if await pool.fetch(idle) else spare
    await run(pool, chosen_node, EndReason.TIME_LIMIT)
    other = await second_owner(pool)
    helper = await priced_node(other)
    await run(other, helper, EndReason.COMPLETED)
    assert (await pool.task(task.id)).state is TaskState.SUCCEEDED
    assert (await pool.balance(pool.bob)).available_micro == 0
    assert (await pool.balance(other.bob)).available_micro == 10 * SECOND_MICRO
    assert [await outliers(pool, node_id) for node_id in (chosen_node, helper)] == [1, 0]
    explanation = await explain_node(pool.services, pool.bob, chosen_node)
    assert explanation.outlier_attempts == 1
    assert explanation.reliability == (
        "1 attempt failed here, while such tasks succeed on nodes of other owners; that lowers its"
        " reliability."
    )
    await pool.check()


async def test_a_failure_of_what_succeeds_elsewhere_is_not_paid_and_is_counted(pool: Pool) -> None:
    await pool.give(pool.alice, 10**9)
    other = await second_owner(pool)
    helper = await priced_node(other)
    for _ in range(FEWEST_ENDS):
        await pool.submit(run_seconds=10.0)
        await run(other, helper, EndReason.COMPLETED)
    await pool.sql("UPDATE nodes SET state = 'silent'")
    node_id = await priced_node(pool)
    await pool.submit(run_seconds=10.0)
    await run(pool, node_id, EndReason.TIME_LIMIT)
    assert (await pool.balance(pool.bob)).available_micro == 0
    assert await outliers(pool, node_id) == 1
    await pool.check()


async def test_a_success_after_a_retry_by_hand_refutes_a_failure(pool: Pool) -> None:
    node_id, grant = await pool.started()
    await pool.report(node_id, done(grant, EndReason.TIME_LIMIT))
    await pool.sql("UPDATE nodes SET state = 'silent'")
    second_task = await pool.submit()
    await pool.sql("UPDATE tasks SET retry_of = $1 WHERE id = $2", grant.task_id, second_task.id)
    other = await second_owner(pool)
    await run(other, (await other.offer()).node_id, EndReason.COMPLETED)
    assert await outliers(pool, node_id) == 1


async def silent(pool: Pool, text: str, contact: str) -> TaskView:
    """A task that its own limit of silence ended; `contact` is what the server knows."""
    await pool.give(pool.alice, 10**9)
    node_id = await priced_node(pool)
    task = await pool.submit(run_seconds=100.0, stop_after_silence_seconds=60.0)
    grant = await begin(pool, node_id, text)
    await pool.sql(f"UPDATE attempts SET {contact}")
    finish = done(grant, EndReason.SILENCE, usage=used(10))
    assert await pool.report(node_id, finish) == ["accepted"]
    await pool.check()
    return await pool.task(task.id)


CONTACT = "heard_since = now() - interval '5 min', heard_at = now() - interval '20 s'"
GAP = "heard_since = now() - interval '5 min', heard_at = now() - interval '70 s'"
BACK = "heard_since = now() - interval '5 s', heard_at = now()"


async def test_a_silence_that_the_server_did_not_see_is_charged_like_a_cancellation(
    pool: Pool,
) -> None:
    task = await silent(pool, "epoch 1\n", CONTACT)
    assert (task.state, task.reason) == (TaskState.FAILED, EndReason.SILENCE), "and it counts"
    assert task.charge_micro == 10 * SECOND_MICRO
    assert await pool.sql("SELECT lost_attempts FROM nodes") == 1


@pytest.mark.parametrize(
    ("text", "contact"),
    [
        pytest.param("", CONTACT, id="nothing shows that it ran"),
        pytest.param("epoch 1\n", GAP, id="no heartbeat came"),
        pytest.param("epoch 1\n", BACK, id="heartbeats came again"),
    ],
)
async def test_a_silence_that_may_be_true_is_not_charged(
    pool: Pool, text: str, contact: str
) -> None:
    task = await silent(pool, text, contact)
    assert task.charge_micro == 0
    if contact != CONTACT:
        assert task.state is TaskState.QUEUED
        assert await pool.sql("SELECT lost_attempts FROM nodes") == 0


async def test_a_gap_between_heartbeats_begins_a_new_contact(pool: Pool) -> None:
    node_id, grant = await pool.started()
    age = "UPDATE attempts SET heard_at = now() - interval '{} s', heard_since = '2020-01-01'"
    is_old = "SELECT heard_since < '2021-01-01' AND heard_at > '2021-01-01' FROM attempts"
    await pool.sql(age.format(30))
    await pool.beat(node_id, lease_of(grant))
    assert await pool.sql(is_old)
    await pool.sql(age.format(70))
    await pool.beat(node_id, lease_of(grant))
    assert not await pool.sql(is_old)


async def test_a_limit_of_silence_below_three_heartbeats_is_refused(pool: Pool) -> None:
    with pytest.raises(InvalidInput, match="nodes only send a heartbeat every 20 s") as error_info:
        await pool.submit(stop_after_silence_seconds=59.0)
    assert "--stop-after-silence 60s" in error_info.value.hint
    await pool.submit(stop_after_silence_seconds=60.0)


async def test_a_task_returned_for_silence_waits_longer_each_time(pool: Pool) -> None:
    """It was granted again at once, hundreds of times a minute."""
    node_id, grant = await pool.started(stop_after_silence_seconds=60.0)
    pauses = []
    for _ in range(3):
        await pool.report(node_id, done(grant, EndReason.SILENCE))
        pause = "SELECT extract(epoch FROM not_before - updated_at)::float8 FROM tasks"
        pauses.append(await pool.sql(pause))
        grant = await begin(pool, node_id)
    losses = "SELECT uncounted_losses FROM lock_attempts_to_settle(ARRAY[$1::text])"
    assert await pool.sql(losses, grant.attempt_id) == 3
    assert all(pause is not None and pause >= 0 for pause in pauses)


async def test_a_failure_that_another_owner_refutes_earns_the_time_of_the_success(
    pool: Pool,
) -> None:
    """A node that idles until the limit, with a made-up log, gains nothing by it."""
    carol = await second_owner(pool)
    await fail_long(pool)
    assert await rewards(pool) == (14_000, 0, 0), "held back while the task is not over"
    assert await judge_failures(pool.services, pool.leads) == 0
    before = (await pool.balance(pool.alice)).available_micro
    await succeed(carol, await priced_node(carol), 1_200)
    assert await judge_failures(pool.services, pool.leads) == 1
    assert await judge_failures(pool.services, pool.leads) == 0
    assert await rewards(pool) == (0, 1_210, 12_790)
    spent = before - (await pool.balance(pool.alice)).available_micro
    assert spent == 1_200 * SECOND_MICRO, "a consumer gains nothing if its task fails on purpose"
    await pool.check()


async def test_time_secured_by_a_checkpoint_is_paid_despite_a_refutation(pool: Pool) -> None:
    carol = await second_owner(pool)
    grant = await fail_long(pool)
    await pool.sql(
        "UPDATE attempts SET checkpoint_at = started_at + interval '9000 s' WHERE id = $1",
        grant.attempt_id,
    )
    await succeed(carol, await priced_node(carol), 60)
    assert await judge_failures(pool.services, pool.leads) == 1
    assert await rewards(pool) == (0, 9_000, 5_000)
    await pool.check()


async def test_a_failure_without_anything_to_compare_with_is_paid_after_some_days(
    pool: Pool,
) -> None:
    await fail_long(pool, max_attempts=1)
    assert await judge_failures(pool.services, pool.leads) == 0
    await let_days_pass(pool, 3)
    assert await judge_failures(pool.services, pool.leads) == 1
    assert await rewards(pool) == (0, 14_000, 0)
    await pool.check()


async def test_a_reward_is_not_held_back_for_ever_while_its_task_waits(pool: Pool) -> None:
    await fail_long(pool, max_attempts=3)
    settings = replace(pool.services.settings, held_back_seconds=10 * 86_400.0)
    services = replace(pool.services, settings=settings)
    for days, judged in ((9, 0), (1, 1)):
        await let_days_pass(pool, days)
        assert await judge_failures(services, pool.leads) == judged
    assert await rewards(pool) == (0, 14_000, 0)
    await pool.check()


async def fail_after_ends_elsewhere(
    pool: Pool, end: Callable[[Pool, NodeId, float], Awaitable[object]], seconds: float
) -> None:
    """Tasks of one name end on a node of another owner, then one fails here after 14,000 s."""
    await pool.give(pool.alice, 10**11)
    carol, node_id = await second_owner(pool), await priced_node(pool)
    carols_node = await priced_node(carol)
    await pool.sql("UPDATE nodes SET cordoned_at = now() WHERE id = $1", node_id)
    for _ in range(FEWEST_ENDS):
        await pool.submit(run_seconds=20_000.0, max_attempts=1)
        await end(carol, carols_node, seconds)
    await pool.sql("UPDATE nodes SET cordoned_at = NULL WHERE id = $1", node_id)
    await pool.sql("UPDATE nodes SET cordoned_at = now() WHERE id = $1", carols_node)
    await pool.submit(run_seconds=20_000.0, max_attempts=1)
    await fail_after(pool, node_id, 14_000)


async def test_a_failure_like_others_of_its_name_is_paid_in_full(pool: Pool) -> None:
    await fail_after_ends_elsewhere(pool, fail_after, 700)
    while await judge_failures(pool.services, pool.leads):
        pass
    assert await rewards(pool) == (0, 14_000, 0)
    await pool.check()


async def test_a_new_owner_earns_by_a_claim_what_such_tasks_take_elsewhere(pool: Pool) -> None:
    """Of a task with one attempt, which no other attempt can refute."""
    await fail_after_ends_elsewhere(pool, succeed, 1_200)
    assert await judge_failures(pool.services, pool.leads) == 1
    assert await rewards(pool) == (0, 1_210, 12_790)
    await pool.check()


async def test_a_short_failure_is_paid_at_once(pool: Pool) -> None:
    await pool.give(pool.alice, 10**11)
    node_id = await priced_node(pool)
    await pool.submit(run_seconds=20_000.0, max_attempts=3)
    await fail_after(pool, node_id, SHORT_SECONDS - 60)
    assert await rewards(pool) == (0, SHORT_SECONDS - 60, 0)
