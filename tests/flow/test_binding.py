"""One device, one wallet; a contested one goes to who can compute on it; leaving frees it."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from potluck.model.account import Role
from potluck.model.device import DeviceKind, Standing
from potluck.model.error import NotFound
from potluck.model.ids import NodeId
from potluck.provider.product import plain_product
from potluck.server.flow import lease
from potluck.store import accounts, audit
from potluck.store.mint import new_node_id
from potluck.store.nodes import Owner
from potluck.wire.challenge import ChallengeAnswer, ChallengeAnswers, DeviceChallenge
from potluck.wire.provider import Heartbeat, HeartbeatAnswer, NodeRegistered, RegisterNode
from tests.flow.pool import Pool, description
from tests.wallets import Wallet

CARD = "GPU-0"


class Side:
    """A wallet and its machine, with one card that says it is GPU-0."""

    def __init__(self, pool: Pool, owner: Owner) -> None:
        self.pool, self.owner = pool, owner
        self.node_id = NodeId("")

    async def register(self, **changes: Any) -> NodeRegistered:
        offer = RegisterNode(description(**changes), self.node_id or None)
        registered = await lease.register(self.pool.parts, self.owner, offer)
        self.node_id = registered.node_id
        return registered

    async def beat(self) -> HeartbeatAnswer:
        return await lease.heartbeat(self.pool.parts, self.owner, self.node_id, Heartbeat())

    async def challenge(self) -> DeviceChallenge:
        (challenge,) = (await self.beat()).challenges
        return challenge

    async def answer(self, challenge: DeviceChallenge, product: bytes | None = None) -> list[str]:
        given = ChallengeAnswer(
            challenge.uuid, challenge.seed, product or plain_product(challenge.seed)
        )
        answers = ChallengeAnswers((given,))
        parts = self.pool.parts
        answered = await lease.answer_challenges(parts, self.owner, self.node_id, answers)
        return answered.accepted

    async def leave(self) -> None:
        await lease.leave(self.pool.parts, self.owner, self.node_id)

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
    async with pool.parts.database.transaction() as connection:
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
    await pool.sql("UPDATE contests SET closes_at = clock_timestamp()")


async def facts(pool: Pool) -> list[str]:
    async with pool.parts.database.transaction() as connection:
        entries = await audit.newest(connection, 2**40, 100)
    return [f"{each.kind} {each.actor}" for each in reversed(entries) if each.subject == CARD]


async def test_the_first_wallet_gets_a_device_and_keeps_it_over_restarts(
    pool: Pool, owner: Side
) -> None:
    assert (await owner.register()).unbound == []
    assert (await owner.register()).unbound == []
    assert await owner.gets_work()
    assert await facts(pool) == [f"device_bound {owner.owner.account_id}"]


async def test_one_wallet_may_show_a_device_on_two_nodes(pool: Pool, owner: Side) -> None:
    await owner.register()
    twin = Side(pool, owner.owner)
    assert (await twin.register()).unbound == []
    assert twin.node_id != owner.node_id


async def test_a_device_that_another_wallet_shows_gets_no_work(
    pool: Pool, owner: Side, other: Side
) -> None:
    await owner.register()
    (unbound,) = (await other.register()).unbound
    assert (unbound.uuid, unbound.standing) == (CARD, Standing.CONTESTED)
    assert not await other.gets_work()
    assert (await other.beat()).unbound == [unbound], "and it is told why"


async def test_the_incumbent_works_on_while_somebody_contests(
    pool: Pool, owner: Side, other: Side
) -> None:
    """A uuid that any task can read must not be enough to take a machine out of the pool."""
    await owner.register()
    await other.register()
    assert await owner.standing() is Standing.BOUND
    assert await owner.gets_work()


async def test_the_incumbent_that_answers_keeps_it_at_once(
    pool: Pool, owner: Side, other: Side
) -> None:
    await owner.register()
    await other.register()
    asked, also_asked = await owner.challenge(), await other.challenge()
    assert asked.seed != also_asked.seed, "nobody can hand in the other's answer"
    assert await other.answer(also_asked) == [CARD]
    assert (await other.beat()).challenges == [], "it has answered"
    assert await owner.answer(asked) == [CARD]
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


async def test_whoever_does_not_answer_gets_nothing(pool: Pool, owner: Side, other: Side) -> None:
    await owner.register()
    await other.register()
    await over(pool)
    assert await other.standing() is Standing.FOREIGN
    assert await owner.standing() is Standing.BOUND


async def test_wrong_late_and_strange_answers_count_for_nothing(
    pool: Pool, owner: Side, other: Side
) -> None:
    await owner.register()
    await other.register()
    stranger = await side(pool, "a stranger")
    await stranger.register(devices=())
    asked, also_asked = await owner.challenge(), await other.challenge()
    right = plain_product(asked.seed)
    assert await owner.answer(asked, right[:-4] + b"\x01\0\0\0") == []
    assert await owner.answer(replace(asked, seed=also_asked.seed)) == []
    assert await stranger.answer(asked) == []
    assert await stranger.answer(also_asked) == []
    assert await owner.answer(replace(asked, uuid="GPU-1")) == []
    await over(pool)
    assert await other.answer(also_asked) == []
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


async def test_leaving_with_one_of_two_nodes_frees_nothing(
    pool: Pool, owner: Side, other: Side
) -> None:
    twin = Side(pool, owner.owner)
    await owner.register()
    await twin.register()
    await owner.leave()
    (unbound,) = (await other.register()).unbound
    assert unbound.standing is Standing.CONTESTED


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


async def test_many_wallets_that_register_one_device_at_once_leave_one_binding(
    pool: Pool,
) -> None:
    sides = [await side(pool, f"wallet {number}") for number in range(8)]
    await asyncio.gather(*(each.register(devices=3) for each in sides))
    assert await pool.sql("SELECT count(*) FROM bindings") == 3
    bound = "SELECT count(*) FROM devices WHERE standing = 'bound'"
    assert await pool.sql(bound) == 3
    async with pool.parts.database.transaction() as connection:
        assert (await audit.verify(connection, pool.parts.keys.audit)).holds


async def test_a_node_key_speaks_for_its_own_node_only(pool: Pool, owner: Side) -> None:
    """Also within one wallet: two machines do not answer for each other."""
    await owner.register()
    key_id = await _key(pool, owner.owner, "the other machine's key")
    foreign = Owner(owner.owner.account_id, key_id)
    for call in (
        lease.heartbeat(pool.parts, foreign, owner.node_id, Heartbeat()),
        lease.leave(pool.parts, foreign, owner.node_id),
        lease.heartbeat(pool.parts, owner.owner, new_node_id(), Heartbeat()),
    ):
        with pytest.raises(NotFound):
            await call
    assert await owner.standing() is Standing.BOUND, "and whoever may not leave frees nothing"
    taken = RegisterNode(description(), owner.node_id)
    registered = await lease.register(pool.parts, foreign, taken)
    assert registered.node_id != owner.node_id


async def test_a_key_that_was_authorised_anew_finds_its_node_again(pool: Pool, owner: Side) -> None:
    account_id = owner.owner.account_id
    owner.owner = Owner(account_id, await _key(pool, owner.owner, "a key"))
    before = (await owner.register()).node_id
    await pool.sql("UPDATE node_keys SET revoked_at = now()")
    owner.owner = Owner(account_id, await _key(pool, owner.owner, "a key"))
    assert (await owner.register()).node_id == before


async def _key(pool: Pool, owner: Owner, name: str) -> str:
    from potluck.store import node_keys
    from potluck.wire.identity import Delegation

    word = Delegation("0x", Wallet(name).address, "o", ("node",), 1, 2**32, "nonce-of-it", "0x")
    async with pool.parts.database.transaction() as connection:
        return (await node_keys.add(connection, owner.account_id, word, "box")).id
