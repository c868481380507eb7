"""Epochs: rewards are counted once, and set aside for those who want to be paid outside."""

import asyncio
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest
from msgspec.structs import replace

from potluck.decide.charges import LedgerSide
from potluck.decide.epochs import EpochReward, UncountedRewards, close_account, next_end
from potluck.model.credit import EntryKind, Purse, RewardsTo
from potluck.model.ids import AccountId
from potluck.server.flow.settle import epochs as closing
from potluck.server.flow.settle.epochs import close_epoch
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.ledger import epochs, ledger, statement
from potluck.store.ledger.epochs import Epoch
from potluck.store.scheduler import leader
from potluck.wire.money.ledger import LineBy
from tests.server.flow.pool import Pool
from tests.server.flow.settle.reward_epochs import (
    CREDIT,
    close,
    earn,
    end_epoch,
    many_payees,
    pay,
    standing,
    want_payout,
)

pytestmark = pytest.mark.every_postgres

DAY = timedelta(days=1)
NOW_AND_THEN = (datetime.now(UTC) - DAY, datetime.now(UTC) + DAY)


async def read(pool: Pool, number: int) -> tuple[Epoch, list[EpochReward]]:
    async with pool.services.database.transaction() as connection:
        epoch = await epochs.get(connection, number)
        rewards = await epochs.rewards_of_epoch(connection, number)
    assert epoch is not None
    return epoch, [row.reward for row in rewards]


async def test_rewards_for_a_payout_are_set_aside_when_the_epoch_is_closed(pool: Pool) -> None:
    await want_payout(pool, pool.bob)
    await earn(pool, 10, fee_basis_points=1000)
    assert await close(pool) == 1
    epoch, rewards = await read(pool, 1)
    assert rewards == [
        EpochReward(pool.bob, 10 * CREDIT, CREDIT, 0, RewardsTo.PAYOUT, 9 * CREDIT, 9 * CREDIT)
    ]
    assert (epoch.accounts, epoch.amount_micro, epoch.cumulative_micro) == (
        1,
        9 * CREDIT,
        9 * CREDIT,
    )
    bob = await standing(pool, pool.bob)
    assert (bob.available_micro, bob.claimable_micro, bob.epoch_earned_micro) == (0, 9 * CREDIT, 0)
    async with pool.services.database.transaction() as connection:
        shown = await statement.summary(connection, pool.bob, *NOW_AND_THEN, LineBy.DAY)
    assert (shown.earned_micro, shown.set_aside_micro, shown.available_micro) == (
        *(9 * CREDIT, 9 * CREDIT, 0),
    )


async def test_rewards_stay_credits_by_default(pool: Pool) -> None:
    await earn(pool)
    await close(pool)
    _, rewards = await read(pool, 1)
    assert [(reward.earned_micro, reward.amount_micro) for reward in rewards] == [(10 * CREDIT, 0)]
    bob = await standing(pool, pool.bob)
    assert (bob.available_micro, bob.claimable_micro) == (10 * CREDIT, 0)


async def test_a_payout_begins_with_the_epoch_in_which_it_is_chosen(pool: Pool) -> None:
    await earn(pool)
    await close(pool)
    await want_payout(pool, pool.bob)
    await earn(pool, 5)
    await close(pool)
    bob = await standing(pool, pool.bob)
    assert (bob.available_micro, bob.claimable_micro) == (10 * CREDIT, 5 * CREDIT)


async def test_epochs_follow_one_another_without_gaps(pool: Pool) -> None:
    await want_payout(pool, pool.bob)
    for number in (1, 2, 3):
        await earn(pool, 1)
        assert await close(pool) == number
    (first, _), (second, _), (third, rewards) = [await read(pool, number) for number in (1, 2, 3)]
    assert (first.cumulative_micro, third.cumulative_micro) == (CREDIT, 3 * CREDIT)
    assert rewards[0].cumulative_micro == 3 * CREDIT
    assert second.closed_at is not None and third.closed_at is not None
    assert await pool.sql("SELECT count(*) FROM epochs WHERE closed_at IS NULL") == 1
    fourth = await read(pool, 4)
    assert fourth[0].starts_at == third.ends_at and fourth[0].ends_at > third.closed_at


async def test_an_epoch_that_is_not_over_stays_open(pool: Pool) -> None:
    assert await close_epoch(pool.services, pool.leads) is None
    await earn(pool)
    assert await close_epoch(pool.services, pool.leads) is None
    epoch, rewards = await read(pool, 1)
    assert epoch.closed_at is None and rewards == []


async def test_spent_rewards_are_not_set_aside(pool: Pool) -> None:
    await want_payout(pool, pool.bob)
    await earn(pool)
    async with pool.services.database.transaction() as connection:
        spent = [
            LedgerSide(pool.bob, EntryKind.GRANT, Purse.AVAILABLE, -7 * CREDIT),
            LedgerSide(None, EntryKind.GRANT, Purse.ISSUED, 7 * CREDIT),
        ]
        await ledger.append(connection, spent)
    await close(pool)
    bob = await standing(pool, pool.bob)
    assert (bob.available_micro, bob.claimable_micro, bob.carried_micro) == (0, 3 * CREDIT, 0)


def account(**changes: object) -> UncountedRewards:
    usual = UncountedRewards(
        AccountId("account_1"),
        RewardsTo.PAYOUT,
        100,
        0,
        7,
        40,
        4,
        carried_micro=0,
        set_aside_micro=9,
    )
    return replace(usual, **changes)


@pytest.mark.parametrize(
    ("changes", "amount", "carried"),
    [
        ({}, 36, 0),
        ({"available_micro": 30}, 30, 0),
        ({"available_micro": 30, "held_micro": 4}, 30, 4),
        ({"available_micro": 30, "held_micro": 400}, 30, 6),
        ({"carried_micro": 10}, 46, 0),
        ({"rewards_to": RewardsTo.CREDITS, "carried_micro": 10}, 0, 0),
    ],
)
def test_held_amounts_are_carried_to_the_next_epoch(
    changes: dict[str, object], amount: int, carried: int
) -> None:
    reward = close_account(account(**changes))
    assert (reward.amount_micro, reward.carried_micro) == (amount, carried)
    assert reward.cumulative_micro == 9 + amount


def test_days_end_at_midnight_utc_and_a_late_closing_makes_no_short_epoch() -> None:
    morning = datetime(2026, 11, 18, 3, tzinfo=UTC)
    midnight = datetime(2026, 11, 19, tzinfo=UTC)
    assert next_end(morning, 86_400) == midnight
    assert next_end(midnight, 86_400) == midnight + DAY
    assert next_end(midnight - timedelta(hours=1), 86_400) == midnight + DAY


async def test_many_leaders_close_an_epoch_once(pool: Pool) -> None:
    """As when the row of the leader changes hands: each believes that it leads."""
    await want_payout(pool, pool.bob)
    await earn(pool)
    await close_epoch(pool.services, pool.leads)
    await end_epoch(pool)
    closers = [close_epoch(pool.services, pool.leads) for _ in range(5)]
    assert (await asyncio.gather(*closers)).count(1) == 1
    await pool.check()
    assert (await standing(pool, pool.bob)).claimable_micro == 10 * CREDIT


async def test_a_leader_whose_term_is_over_closes_nothing(pool: Pool) -> None:
    await earn(pool)
    await close_epoch(pool.services, pool.leads)
    await end_epoch(pool)
    earlier = replace(pool.leads, term=pool.leads.term - 1)
    assert await close_epoch(pool.services, earlier) is None
    assert await pool.sql("SELECT closing_at FROM epochs") is None


class Killed(Exception):
    """The leader dies here."""


@pytest.mark.parametrize("steps", range(10))
async def test_a_leader_that_dies_while_closing_is_followed_by_one_that_finishes(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """It dies at the given transaction, before or after it commits; nobody is counted twice."""
    workers = await many_payees(pool, 5)
    monkeypatch.setattr(closing, "_BATCH", 2)
    await close_epoch(pool.services, pool.leads)
    await end_epoch(pool)
    with pytest.raises(Killed):
        await close_epoch(dying(pool.services, steps), pool.leads)
    async with pool.services.database.transaction() as connection:
        await leader.resign(connection, pool.leads.holder)
        follower = await leader.acquire_or_renew(connection, "another", 60)
    assert follower is not None
    await close_epoch(pool.services, follower)
    await pool.check()
    epoch, rewards = await read(pool, 1)
    assert epoch.closed_at is not None
    assert {reward.account_id: reward.amount_micro for reward in rewards} == dict.fromkeys(
        workers, CREDIT
    )


def dying(services: Services, steps: int) -> Services:
    """Whose transactions end the process at a step: even before the commit, odd after it."""
    return replace(services, database=DyingDatabase(services.database, steps))


class DyingDatabase:
    def __init__(self, database: object, steps: int) -> None:
        self._database = database
        self._steps = steps

    def transaction(self) -> "DyingTransaction":
        self._steps -= 2
        return DyingTransaction(self._database, self._steps)


class DyingTransaction:
    def __init__(self, database: object, steps: int) -> None:
        self._inner = database.transaction()  # type: ignore[attr-defined]
        self._steps = steps

    async def __aenter__(self) -> Connection:
        return await self._inner.__aenter__()

    async def __aexit__(self, *error: object) -> None:
        if self._steps == -2:
            killed = Killed()
            await self._inner.__aexit__(Killed, killed, None)
            raise killed
        await self._inner.__aexit__(*error)
        if self._steps == -1:
            raise Killed


async def test_a_payment_that_commits_after_the_closing_is_in_the_next_epoch(pool: Pool) -> None:
    """Its time is before the end of the epoch; nothing waits for it, and nothing is lost."""
    (worker,) = await many_payees(pool, 1)
    await close_epoch(pool.services, pool.leads)
    attempt_id = await pool.sql("SELECT id FROM attempts LIMIT 1")
    async with pool.services.database.transaction() as late_connection:
        await late_connection.execute("SELECT now()")
        await end_epoch(pool)
        assert await close_epoch(pool.services, pool.leads) == 1
        await pay(late_connection, pool, worker, attempt_id, 50)
    paid_at = await pool.sql("SELECT max(created_at) FROM ledger_entries WHERE slice = 150")
    first, rewards = await read(pool, 1)
    assert paid_at < first.ends_at
    assert [reward.amount_micro for reward in rewards] == [CREDIT]
    await close(pool)
    _, rewards = await read(pool, 2)
    assert [reward.amount_micro for reward in rewards] == [CREDIT]


async def test_the_database_refuses_to_set_rewards_aside_twice(pool: Pool) -> None:
    await want_payout(pool, pool.bob)
    await earn(pool)
    await close(pool)
    with pytest.raises(asyncpg.UniqueViolationError):
        async with pool.services.database.transaction() as connection:
            reward = EpochReward(pool.bob, 1, 0, 0, RewardsTo.PAYOUT, 1, 2)
            await epochs.count(connection, 1, [reward])
    with pytest.raises(asyncpg.RestrictViolationError):
        await pool.sql("UPDATE epoch_rewards SET amount_micro = 0")
