"""Who pays for attempts that end without a result, and which nodes are trusted less for them."""

import asyncio

import pytest

from potluck.decide.failure_record import FEWEST_ENDS, FIRST_SPARED, PAID_FOR_SPARED
from potluck.model.account import Role
from potluck.model.error import InvalidInput
from potluck.model.ids import NodeId
from potluck.model.task import EndReason, TaskState
from potluck.server.flow.schedule.explain_node import explain_node
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
    late = "UPDATE attempts SET started_at = started_at - interval '10 s' WHERE id = $1"
    await owner.sql(late, grant.attempt_id)
    return grant


async def run(owner: Pool, node_id: NodeId, reason: EndReason, text: str = "") -> Grant:
    grant = await begin(owner, node_id, text)
    ended = done(grant, reason, usage=used(10))
    assert await owner.report(node_id, ended) == ["accepted"]
    return grant


async def priced_node(owner: Pool) -> NodeId:
    return (await owner.offer(price_micro_per_hour=HOUR_MICRO)).node_id


async def outliers(pool: Pool, node_id: NodeId) -> int:
    found: int = await pool.sql("SELECT outlier_attempts FROM nodes WHERE id = $1", node_id)
    return found


@pytest.mark.parametrize(
    ("text", "seconds"),
    [pytest.param("", 10, id="silent"), pytest.param("epoch 1\n", 30, id="log")],
)
async def test_a_consumer_pays_for_one_attempt_that_left_nothing(
    pool: Pool, text: str, seconds: int
) -> None:
    """Else a node that idles and says `time_limit` earns the budget of all attempts."""
    await pool.give(pool.alice, 10**9)
    node_id = await priced_node(pool)
    task = await pool.submit(run_seconds=10.0, max_attempts=3)
    for _ in range(3):
        await run(pool, node_id, EndReason.TIME_LIMIT, text)
    ended = await pool.task(task.id)
    assert (ended.state, ended.reason) == (TaskState.FAILED, EndReason.TIME_LIMIT)
    assert (await pool.balance(pool.bob)).available_micro == seconds * SECOND_MICRO
    assert (await pool.balance(pool.alice)).available_micro == 10**9 - seconds * SECOND_MICRO
    await pool.check()


async def test_attempts_that_fail_in_one_moment_on_many_nodes_are_spared_exactly(
    pool: Pool,
) -> None:
    """Each transaction waits for the others of the account, and sees what they spared."""
    await pool.give(pool.alice, 10**9)
    begun: list[tuple[NodeId, Grant]] = []
    for _ in range(6):
        node_id = await priced_node(pool)
        await pool.submit(run_seconds=10.0, max_attempts=2)
        begun.append((node_id, await begin(pool, node_id)))
    ends = [
        pool.report(node_id, done(grant, EndReason.TIME_LIMIT, usage=used(10)))
        for node_id, grant in begun
    ]
    assert await asyncio.gather(*ends) == [["accepted"]] * 6
    assert await pool.sql("SELECT count(*) FROM attempts WHERE is_spared") == FIRST_SPARED
    charged = (6 - FIRST_SPARED) * 10 * SECOND_MICRO
    assert (await pool.balance(pool.bob)).available_micro == charged
    await pool.check()


async def test_what_an_account_paid_others_lets_it_be_spared_more(pool: Pool) -> None:
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


async def test_a_failure_that_another_owner_refutes_is_not_paid_and_is_counted(pool: Pool) -> None:
    await pool.give(pool.alice, 10**9)
    idle, spare = await priced_node(pool), await priced_node(pool)
    task = await pool.submit(run_seconds=10.0, max_attempts=3)
    await pool.plan()
    chosen = idle if await pool.fetch(idle) else spare
    await run(pool, chosen, EndReason.TIME_LIMIT)
    other = await second_owner(pool)
    helper = await priced_node(other)
    await run(other, helper, EndReason.COMPLETED)
    assert (await pool.task(task.id)).state is TaskState.SUCCEEDED
    assert (await pool.balance(pool.bob)).available_micro == 0
    assert (await pool.balance(other.bob)).available_micro == 10 * SECOND_MICRO
    assert [await outliers(pool, each) for each in (chosen, helper)] == [1, 0]
    explained = await explain_node(pool.services, pool.bob, chosen)
    assert explained.outlier_attempts == 1
    assert explained.reliability == (
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


async def test_what_was_tried_again_by_hand_refutes_too(pool: Pool) -> None:
    node_id, grant = await pool.started()
    await pool.report(node_id, done(grant, EndReason.TIME_LIMIT))
    await pool.sql("UPDATE nodes SET state = 'silent'")
    again = await pool.submit()
    await pool.sql("UPDATE tasks SET retry_of = $1 WHERE id = $2", grant.task_id, again.id)
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
    ended = done(grant, EndReason.SILENCE, usage=used(10))
    assert await pool.report(node_id, ended) == ["accepted"]
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
    with pytest.raises(InvalidInput, match="nodes only send a heartbeat every 20 s") as refused:
        await pool.submit(stop_after_silence_seconds=59.0)
    assert "--stop-after-silence 60s" in refused.value.hint
    await pool.submit(stop_after_silence_seconds=60.0)


async def test_what_is_sent_away_waits_longer_each_time(pool: Pool) -> None:
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
