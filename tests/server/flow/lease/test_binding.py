"""One device, one wallet; a contested one goes to who can compute on it; leaving frees it."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from potluck.model.account import Role
from potluck.model.device import DeviceDescription, DeviceKind, Standing
from potluck.model.error import Conflict, DeviceBound, InvalidInput, NotFound, NotSignedIn
from potluck.model.ids import NodeId
from potluck.model.task import GIB
from potluck.provider.devices.contest_watch import plain_product
from potluck.server import topics
from potluck.server.flow.housekeeping import expire
from potluck.server.flow.lease import lease
from potluck.store.identity import accounts, audit
from potluck.store.new_ids import new_node_id
from potluck.store.nodes.nodes import Owner
from potluck.wire.device_challenge import ChallengeAnswer, ChallengeAnswers, DeviceChallenge
from potluck.wire.provider import (
    AcquireLeases,
    Heartbeat,
    HeartbeatAnswer,
    NodeRegistered,
    RegisterNode,
)
from tests.server.flow.pool import Pool, description
from tests.wallets import Wallet

CARD = "GPU-0"


class Side:
    """A wallet and its machine, with one card that says it is GPU-0."""

    def __init__(self, pool: Pool, owner: Owner) -> None:
        self.pool, self.owner = pool, owner
        self.node_id = NodeId("")

    async def register(self, *, contest: bool = True, **changes: Any) -> NodeRegistered:
        offer = RegisterNode(description(**changes), self.node_id or None, contest=contest)
        registration = await lease.register(self.pool.services, self.owner, offer)
        self.node_id = registration.node_id
        return registration

    async def beat(self) -> HeartbeatAnswer:
        return await lease.heartbeat(self.pool.services, self.owner, self.node_id, Heartbeat())

    async def challenge(self) -> DeviceChallenge:
        (challenge,) = (await self.beat()).challenges
        return challenge

    async def answer(self, challenge: DeviceChallenge, product: bytes | None = None) -> list[str]:
        challenge_answer = ChallengeAnswer(
            challenge.uuid, challenge.seed, product or plain_product(challenge.seed)
        )
        request = ChallengeAnswers((challenge_answer,))
        parts = self.pool.services
        outcome = await lease.answer_challenges(parts, self.owner, self.node_id, request)
        return outcome.accepted

    async def leave(self) -> None:
        await lease.leave(self.pool.services, self.owner, self.node_id)

    async def standing(self) -> Standing:
        unbound = (await self.beat()).unbound
        return unbound[0].standing if unbound else Standing.BOUND

    async def gets_work(self) -> bool:
        """Whether a task is planned onto this machine; there are enough for both, a card each."""
        for _ in range(2):
            await self.pool.submit(device_kind=DeviceKind.GPU)
        await self.pool.plan()
        return bool(await self.pool.sql("SELECT id FROM attempts WHERE node_id = $1", self.node_id))


async def side(pool: Pool, name: str) -> Side:
    async with pool.services.database.transaction() as connection:
        account = await accounts.add(connection, Wallet(name).address, {Role.PROVIDER})
    assert account is not None
    return Side(pool, Owner(account.id))


@pytest.fixture
async def owner(pool: Pool) -> Side:
    return await side(pool, "owner")


@pytest.fixture
async def other(pool: Pool) -> Side:
    return await side(pool, "other")


async def over(pool: Pool) -> None:
    """The time to answer is over, by the database's clock."""
    await pool.sql(
        "UPDATE contests SET incumbent_by = clock_timestamp(), contender_by = clock_timestamp()"
    )


async def facts(pool: Pool) -> list[str]:
    async with pool.services.database.transaction() as connection:
        entries = await audit.newest(connection, 2**40, 100)
    return [f"{entry.kind} {entry.actor}" for entry in reversed(entries) if entry.subject == CARD]


async def test_the_first_wallet_gets_a_device_and_keeps_it_over_restarts(
    pool: Pool, owner: Side
) -> None:
    assert (await owner.register()).unbound == []
    assert (await owner.register()).unbound == []
    assert await owner.gets_work()
    assert await facts(pool) == [f"device_bound {owner.owner.account_id}"]


async def test_a_card_of_another_wallet_is_refused_unless_it_is_contested(
    pool: Pool, owner: Side, other: Side
) -> None:
    await owner.register()
    before = await everything(pool)
    for devices in (1, 3):  # one that is bound is enough
        with pytest.raises(DeviceBound, match=f"{CARD} is bound to another wallet") as error_info:
            await other.register(contest=False, devices=devices)
        assert "contest" in error_info.value.hint
        assert await everything(pool) == before
    assert [
        unbound_device.uuid for unbound_device in (await other.register(devices=3)).unbound
    ] == [CARD]
    with pytest.raises(DeviceBound):
        await other.register(contest=False)
    await owner.leave()
    assert (await other.register(contest=False)).unbound == [], "nobody else's any more"


async def everything(pool: Pool) -> list[str]:
    tables = ("bindings", "contests", "nodes", "devices", "events", "audit", "wishes")
    return [
        await pool.sql(f"SELECT coalesce(jsonb_agg(t ORDER BY t), '[]')::text FROM {table} AS t")
        for table in tables
    ]


async def test_one_card_on_two_nodes_of_a_wallet_is_offered_once(pool: Pool, owner: Side) -> None:
    await owner.register()
    twin = Side(pool, owner.owner)
    (unbound,) = (await twin.register()).unbound
    assert twin.node_id != owner.node_id and unbound.standing is Standing.ELSEWHERE
    assert await owner.gets_work() and not await twin.gets_work()
    await owner.register()
    assert await twin.standing() is Standing.ELSEWHERE, "whoever was first keeps it"


async def test_a_card_goes_to_the_wallets_other_node_when_the_first_is_silent(
    pool: Pool, owner: Side
) -> None:
    twin = Side(pool, owner.owner)
    await owner.register()
    await twin.register()
    await pool.sql("UPDATE nodes SET state = 'silent' WHERE id = $1", owner.node_id)
    await pool.sql("UPDATE devices SET free_milli = 0 WHERE node_id = $1", owner.node_id)
    assert await twin.standing() is Standing.ELSEWHERE, "there it is still in use"
    assert len((await twin.register()).unbound) == 1, "also for who registers again"
    await pool.sql("UPDATE devices SET free_milli = 1000")
    assert await twin.standing() is Standing.BOUND
    assert await owner.standing() is Standing.ELSEWHERE, "and it stays there"
    assert await twin.gets_work() and not await owner.gets_work()


async def test_a_card_goes_to_the_wallets_other_node_when_the_first_shows_it_no_more(
    pool: Pool, owner: Side
) -> None:
    twin = Side(pool, owner.owner)
    await owner.register()
    await twin.register()
    await owner.register(devices=())
    assert await twin.standing() is Standing.BOUND


async def test_a_processor_is_offered_by_every_provider_on_its_machine(
    pool: Pool, owner: Side
) -> None:
    processor = DeviceDescription(DeviceKind.CPU, "cpu-1", "AMD", "EPYC", GIB)
    twin = Side(pool, owner.owner)
    assert (await owner.register(devices=(processor,))).unbound == []
    assert (await twin.register(devices=(processor,))).unbound == []


async def test_a_device_that_another_wallet_shows_gets_no_work(
    pool: Pool, owner: Side, other: Side
) -> None:
    await owner.register()
    (unbound,) = (await other.register()).unbound
    assert (unbound.uuid, unbound.standing) == (CARD, Standing.CONTESTED)
    assert not await other.gets_work()
    assert (await other.beat()).unbound == [unbound], "and it is told why"


async def test_the_owner_keeps_working_during_a_contest(
    pool: Pool, owner: Side, other: Side
) -> None:
    """A uuid that any task can read must not be enough to take a machine out of the pool."""
    await owner.register()
    await other.register()
    assert await owner.standing() is Standing.BOUND
    assert await owner.gets_work()


async def test_an_incumbent_that_answers_keeps_the_device_immediately(
    pool: Pool, owner: Side, other: Side
) -> None:
    await owner.register()
    await other.register()
    challenge, also_asked = await owner.challenge(), await other.challenge()
    assert challenge.seed != also_asked.seed, "nobody can hand in the other's answer"
    assert await other.answer(also_asked) == [CARD]
    assert (await other.beat()).challenges == [], "it has answered"
    assert await owner.answer(challenge) == [CARD]
    assert (await owner.beat()).challenges == []
    assert await owner.standing() is Standing.BOUND
    assert await other.standing() is Standing.FOREIGN


async def test_a_silent_incumbent_loses_it_to_who_answered(
    pool: Pool, owner: Side, other: Side
) -> None:
    await owner.register()
    await other.register()
    await other.answer(await other.challenge())
    assert await other.standing() is Standing.CONTESTED, "the incumbent still has time"
    await over(pool)
    assert await other.standing() is Standing.BOUND
    assert await owner.standing() is Standing.FOREIGN
    assert await other.gets_work()
    a, b = owner.owner.account_id, other.owner.account_id
    assert await facts(pool) == [
        *(f"device_bound {a}", f"device_contested {b}"),
        *(f"device_unbound {a}", f"device_bound {b}"),
    ]


async def test_an_unanswered_challenge_changes_nothing(
    pool: Pool, owner: Side, other: Side
) -> None:
    await owner.register()
    await other.register()
    await over(pool)
    assert await other.standing() is Standing.FOREIGN
    assert await owner.standing() is Standing.BOUND


async def test_late_and_strange_answers_count_for_nothing(
    pool: Pool, owner: Side, other: Side
) -> None:
    await owner.register()
    await other.register()
    stranger = await side(pool, "a stranger")
    await stranger.register(devices=())
    challenge, also_asked = await owner.challenge(), await other.challenge()
    assert await owner.answer(replace(challenge, seed=also_asked.seed)) == []
    assert await stranger.answer(challenge) == []
    assert await stranger.answer(also_asked) == []
    assert await owner.answer(replace(challenge, uuid="GPU-1")) == []
    await over(pool)
    assert await other.answer(also_asked) == []
    assert await owner.standing() is Standing.BOUND


def wrong(challenge: DeviceChallenge) -> bytes:
    return plain_product(challenge.seed)[:-4] + b"\x01\0\0\0"


async def test_a_wrong_answer_is_an_answer(pool: Pool, owner: Side, other: Side) -> None:
    await owner.register()
    await other.register()
    challenge, also_asked = await owner.challenge(), await other.challenge()
    assert await owner.answer(challenge, wrong(challenge)) == []
    assert await owner.answer(challenge) == [], "there is no second try"
    assert (await owner.beat()).challenges == []
    assert await owner.standing() is Standing.BOUND, "wrong loses it to who is right only"
    assert await other.answer(also_asked) == [CARD]
    assert await other.standing() is Standing.BOUND


async def test_a_contest_ends_with_the_contenders_wrong_answer(
    pool: Pool, owner: Side, other: Side
) -> None:
    await owner.register()
    await other.register()
    challenge = await other.challenge()
    assert await other.answer(challenge, wrong(challenge)) == []
    assert await pool.sql("SELECT count(*) FROM contests") == 0
    assert await other.standing() is Standing.FOREIGN


async def test_a_second_answer_for_a_device_in_one_request_is_refused(
    pool: Pool, owner: Side, other: Side
) -> None:
    await owner.register()
    await other.register()
    challenge = await owner.challenge()
    challenge_answer = ChallengeAnswer(challenge.uuid, challenge.seed, wrong(challenge))
    with pytest.raises(InvalidInput):
        await lease.answer_challenges(
            pool.services,
            owner.owner,
            owner.node_id,
            ChallengeAnswers((challenge_answer, challenge_answer)),
        )
    assert await owner.answer(challenge) == [CARD], "and none of them was looked at"


async def test_a_failed_contest_is_not_repeated_soon(pool: Pool, owner: Side, other: Side) -> None:
    await owner.register()
    await other.register()
    await owner.answer(await owner.challenge())
    (unbound,) = (await other.register()).unbound
    assert unbound.standing is Standing.FOREIGN
    assert (await owner.beat()).challenges == []
    third = await side(pool, "a third")
    assert (await third.register()).unbound[0].standing is Standing.CONTESTED, "others may"
    await over(pool)
    await owner.beat()
    await pool.sql("UPDATE lost_contests SET lost_at = lost_at - interval '1 day'")
    assert (await other.register()).unbound[0].standing is Standing.CONTESTED


async def test_a_silent_machine_has_longer_until_it_is_reported(
    pool: Pool, owner: Side, other: Side
) -> None:
    await owner.register()
    await other.register()
    await other.answer(await other.challenge())
    await _pass(pool, "23 hours")
    assert await other.standing() is Standing.CONTESTED
    assert (await owner.challenge()).seconds_left == 60, "now it is here, and is asked"
    await _pass(pool, "59 seconds")
    assert await other.standing() is Standing.CONTESTED
    assert (await owner.challenge()).seconds_left < 2
    await _pass(pool, "2 seconds")
    assert await other.standing() is Standing.BOUND


async def test_a_machine_that_is_away_for_a_day_loses_it_to_who_answered(
    pool: Pool, owner: Side, other: Side
) -> None:
    await owner.register()
    await other.register()
    await other.answer(await other.challenge())
    await _pass(pool, "1 day")
    assert await other.standing() is Standing.BOUND


async def test_a_machine_without_the_card_has_no_time_to_answer(
    pool: Pool, owner: Side, other: Side
) -> None:
    await owner.register()
    await owner.register(devices=())
    await other.register()
    await other.answer(await other.challenge())
    await _pass(pool, "1 minute")
    assert await other.standing() is Standing.BOUND


async def _pass(pool: Pool, time: str) -> None:
    """As if this time had gone by, for all contests."""
    await pool.sql(
        "UPDATE contests SET incumbent_by = incumbent_by - $1::text::interval,"
        " contender_by = contender_by - $1::text::interval",
        time,
    )


async def test_the_servers_own_absence_moves_no_device(
    pool: Pool, owner: Side, other: Side
) -> None:
    await owner.register()
    await other.register()
    challenge, also_asked = await owner.challenge(), await other.challenge()
    await other.answer(also_asked)
    await pool.sql("UPDATE leader SET expires_at = now() - interval '1 hour'")
    await _pass(pool, "10 minutes")  # in the middle of that hour
    assert await other.standing() is Standing.CONTESTED, "nobody leads: no time passes"
    await pool.sql("UPDATE leader SET expires_at = now() + interval '1 hour'")
    await expire.begin_term(pool.services, pool.leads)
    assert await other.standing() is Standing.CONTESTED, "the gap is forgiven"
    assert await owner.answer(challenge) == [CARD]
    assert await owner.standing() is Standing.BOUND


async def test_a_third_wallet_waits_while_two_contest(pool: Pool, owner: Side, other: Side) -> None:
    third = await side(pool, "a third")
    await owner.register()
    await other.register()
    (unbound,) = (await third.register()).unbound
    assert unbound.standing is Standing.FOREIGN
    assert (await third.beat()).challenges == []
    assert (await owner.challenge()).uuid == CARD


async def test_leaving_frees_a_device_for_who_waits(pool: Pool, owner: Side, other: Side) -> None:
    await owner.register()
    await other.register()
    await owner.leave()
    assert await other.standing() is Standing.BOUND
    assert await other.gets_work()
    (unbound,) = (await owner.register()).unbound
    assert unbound.standing is Standing.CONTESTED, "now it is the other's"


async def test_leaving_ends_an_open_poll(pool: Pool, owner: Side) -> None:
    await owner.register()
    async with pool.services.live.listen(topics.node(owner.node_id)) as listener:
        await owner.leave()
        async with asyncio.timeout(10):
            await listener.wait(60)


async def test_leaving_with_one_of_two_nodes_frees_nothing(
    pool: Pool, owner: Side, other: Side
) -> None:
    twin = Side(pool, owner.owner)
    await owner.register()
    await twin.register()
    await owner.leave()
    (unbound,) = (await other.register()).unbound
    assert unbound.standing is Standing.CONTESTED
    assert await twin.standing() is Standing.BOUND, "the twin offers it now"


async def test_a_running_node_gets_what_lapses(pool: Pool, owner: Side, other: Side) -> None:
    """Without being started again."""
    await owner.register()
    await other.register()
    await over(pool)
    assert await other.standing() is Standing.FOREIGN
    await pool.sql(
        "UPDATE nodes SET heartbeat_at = now() - interval '7 days' WHERE id = $1", owner.node_id
    )
    assert await other.standing() is Standing.BOUND


async def test_a_binding_lapses_when_its_nodes_were_silent_for_a_week(
    pool: Pool, owner: Side, other: Side
) -> None:
    await owner.register()
    await pool.sql("UPDATE nodes SET heartbeat_at = now() - interval '6 days 23 hours'")
    assert len((await other.register()).unbound) == 1
    await over(pool)
    assert await other.standing() is Standing.FOREIGN
    await pool.sql(
        "UPDATE nodes SET heartbeat_at = now() - interval '7 days' WHERE id = $1", owner.node_id
    )
    assert (await other.register()).unbound == []
    assert await owner.standing() is Standing.FOREIGN


async def test_a_card_that_moved_to_another_machine_goes_to_who_can_compute_on_it(
    pool: Pool, owner: Side, other: Side
) -> None:
    await owner.register()
    await owner.register(devices=())
    await other.register()
    assert (await owner.beat()).challenges == [], "it does not show the card any more"
    await other.answer(await other.challenge())
    await over(pool)
    assert await other.standing() is Standing.BOUND


async def test_many_wallets_that_register_one_device_at_once_leave_one_binding(pool: Pool) -> None:
    sides = [await side(pool, f"wallet {number}") for number in range(8)]
    await asyncio.gather(*(contender.register(devices=3) for contender in sides))
    assert await pool.sql("SELECT count(*) FROM bindings") == 3
    bound = "SELECT count(*) FROM devices WHERE standing = 'bound'"
    assert await pool.sql(bound) == 3
    async with pool.services.database.transaction() as connection:
        assert (await audit.verify(connection, pool.services.keys.audit)).holds


async def test_a_card_that_is_no_longer_offered_blocks_no_other_owner(
    pool: Pool, owner: Side, other: Side
) -> None:
    """Its node is not locked, so its row is not touched."""
    await owner.register()
    await owner.register(devices=())
    async with pool.services.database.transaction() as connection:
        await connection.execute("SELECT FROM devices WHERE node_id = $1 FOR UPDATE", owner.node_id)
        async with asyncio.timeout(30):
            await other.register()


async def test_many_devices_of_one_node_are_one_entry_of_the_audits_lock(
    pool: Pool, owner: Side
) -> None:
    await owner.register(devices=64)
    bound = "SELECT count(*) FROM audit WHERE kind = 'device_bound'"
    assert await pool.sql(bound) == 64
    assert await pool.sql("SELECT count(DISTINCT at) FROM audit") == 1, "its head was taken once"
    async with pool.services.database.transaction() as connection:
        assert (await audit.verify(connection, pool.services.keys.audit)).holds


async def test_one_key_has_one_node_whatever_it_remembers(pool: Pool, owner: Side) -> None:
    keyed = Owner(owner.owner.account_id, await _key(pool, owner.owner, "a key"))
    sides = [Side(pool, keyed) for _ in range(8)]
    await asyncio.gather(*(contender.register() for contender in sides))
    sides[0].node_id = new_node_id()
    await sides[0].register()
    await sides[0].leave()
    sides[0].node_id = NodeId("")
    await sides[0].register()
    assert len({contender.node_id for contender in sides}) == 1


async def test_a_wallet_has_so_many_nodes_and_no_more(pool: Pool, owner: Side) -> None:
    limited_services = replace(
        pool.services, settings=replace(pool.services.settings, nodes_per_account=2)
    )
    owner.pool = Pool(limited_services, pool.alice, pool.bob, pool.leads)
    first, second, third = (Side(owner.pool, owner.owner) for _ in range(3))
    await first.register()
    await second.register()
    with pytest.raises(Conflict, match="2 nodes"):
        await third.register()
    await second.register()
    await first.leave()
    await third.register()
    with pytest.raises(Conflict):
        await first.register()


OUT_OF_FORCE = {
    "revoked": "UPDATE node_keys SET revoked_at = now()",
    "ended": "UPDATE node_keys SET expires_at = now()",
    "suspended": "UPDATE accounts SET suspended_at = now()",
}


@pytest.mark.parametrize("end", OUT_OF_FORCE)
async def test_an_open_poll_gets_nothing_once_its_key_is_worth_nothing(
    pool: Pool, owner: Side, end: str
) -> None:
    owner.owner = Owner(owner.owner.account_id, await _key(pool, owner.owner, "a key"))
    await owner.register()
    await pool.submit()
    assert len((await pool.plan()).assigned) == 1
    await pool.sql(OUT_OF_FORCE[end])  # after the poll was let in
    request = AcquireLeases(wait_seconds=0)
    response = await lease.acquire(pool.services, owner.owner, owner.node_id, request)
    assert response.grants == []


async def test_a_key_that_is_revoked_at_this_moment_registers_nothing(
    pool: Pool, owner: Side
) -> None:
    owner.owner = Owner(owner.owner.account_id, await _key(pool, owner.owner, "a key"))
    await pool.sql("UPDATE node_keys SET revoked_at = now()")
    with pytest.raises(NotSignedIn):
        await owner.register()


async def test_a_node_key_speaks_for_its_own_node_only(pool: Pool, owner: Side) -> None:
    """Also within one wallet: two machines do not answer for each other."""
    await owner.register()
    key_id = await _key(pool, owner.owner, "the other machine's key")
    foreign = Owner(owner.owner.account_id, key_id)
    for call in (
        lease.heartbeat(pool.services, foreign, owner.node_id, Heartbeat()),
        lease.leave(pool.services, foreign, owner.node_id),
        lease.heartbeat(pool.services, owner.owner, new_node_id(), Heartbeat()),
    ):
        with pytest.raises(NotFound):
            await call
    assert await owner.standing() is Standing.BOUND, "and whoever may not leave frees nothing"
    registration_request = RegisterNode(description(), owner.node_id)
    registration = await lease.register(pool.services, foreign, registration_request)
    assert registration.node_id != owner.node_id


async def test_a_key_that_was_authorised_anew_finds_its_node_again(pool: Pool, owner: Side) -> None:
    account_id = owner.owner.account_id
    owner.owner = Owner(account_id, await _key(pool, owner.owner, "a key"))
    before = (await owner.register()).node_id
    await pool.sql("UPDATE node_keys SET revoked_at = now()")
    owner.owner = Owner(account_id, await _key(pool, owner.owner, "a key"))
    assert (await owner.register()).node_id == before


async def _key(pool: Pool, owner: Owner, name: str) -> str:
    from potluck.store.identity import node_keys
    from potluck.wire.identity import Delegation

    word = Delegation("0x", Wallet(name).address, "o", ("node",), 1, 2**32, "nonce-of-it", "0x")
    async with pool.services.database.transaction() as connection:
        return (await node_keys.add(connection, owner.account_id, word, "box")).id
