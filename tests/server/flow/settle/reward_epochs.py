"""Accounts that earn rewards, and epochs that end."""

from msgspec.structs import replace

from potluck.decide.charges import LedgerSide
from potluck.model.account import Role
from potluck.model.credit import EntryKind, Purse, RewardsTo
from potluck.model.ids import AccountId, AttemptId
from potluck.server.flow.settle.epochs import close_epoch
from potluck.store.database import Connection
from potluck.store.identity import accounts
from potluck.store.ledger import epochs, ledger
from potluck.store.ledger.epochs import RewardsStanding
from potluck.store.ledger.ledger import Movement
from potluck.wire.provider import Started
from tests.server.flow.pool import Pool, done, lease_of, used
from tests.wallets import Wallet

CREDIT = 1_000_000
# A credit a second.
HOUR_MICRO = 3_600_000_000


async def end_epoch(pool: Pool) -> None:
    """As if the open epoch had ended a moment ago."""
    await pool.sql(
        "UPDATE epochs SET starts_at = now() - interval '1 day', ends_at = now()"
        " WHERE closed_at IS NULL"
    )


async def close(pool: Pool) -> int | None:
    await close_epoch(pool.services, pool.leads)
    await end_epoch(pool)
    closed = await close_epoch(pool.services, pool.leads)
    await pool.check()
    return closed


async def earn(pool: Pool, seconds: float = 10, fee_basis_points: int = 0) -> None:
    """Bob's machine works for Alice."""
    settings = replace(pool.services.settings, fee_basis_points=fee_basis_points)
    pool.services = replace(pool.services, settings=settings)
    await pool.give(pool.alice, 10**12)
    node_id = next(iter(pool.machines), None)
    if node_id is None:
        node_id = (await pool.offer(price_micro_per_hour=HOUR_MICRO)).node_id
    await pool.submit()
    await pool.plan()
    (grant,) = await pool.fetch(node_id)
    assert await pool.report(node_id, Started(lease_of(grant))) == ["accepted"]
    await pool.sql(
        "UPDATE attempts SET started_at = started_at - interval '1 hour' WHERE id = $1",
        grant.attempt_id,
    )
    assert await pool.report(node_id, done(grant, usage=used(seconds))) == ["accepted"]


async def want_payout(pool: Pool, account_id: AccountId, is_on: bool = True) -> None:
    async with pool.services.database.transaction() as connection:
        choice = RewardsTo.PAYOUT if is_on else RewardsTo.CREDITS
        await epochs.set_rewards_to(connection, account_id, choice)


async def standing(pool: Pool, account_id: AccountId) -> RewardsStanding:
    async with pool.services.database.transaction() as connection:
        return await epochs.standing(connection, account_id)


async def many_payees(pool: Pool, count: int) -> list[AccountId]:
    """Accounts with a credit of rewards each, to be paid."""
    async with pool.services.database.transaction() as connection:
        added = [
            await accounts.add(connection, Wallet(f"worker {number}").address, {Role.PROVIDER})
            for number in range(count)
        ]
        workers = [account.id for account in added if account is not None]
        for worker in workers:
            await epochs.set_rewards_to(connection, worker, RewardsTo.PAYOUT)
    await earn(pool, 0)
    attempt_id = await pool.sql("SELECT id FROM attempts LIMIT 1")
    for number, worker in enumerate(workers):
        async with pool.services.database.transaction() as connection:
            await pay(connection, pool, worker, attempt_id, number)
    return workers


async def pay(
    connection: Connection, pool: Pool, worker: AccountId, attempt_id: AttemptId, number: int
) -> None:
    paid = (
        LedgerSide(pool.alice, EntryKind.CHARGE, Purse.AVAILABLE, -CREDIT),
        LedgerSide(worker, EntryKind.REWARD, Purse.AVAILABLE, CREDIT),
    )
    await ledger.append_many(connection, [Movement(paid, attempt_id, slice=100 + number)])
    await connection.execute(
        "UPDATE attempts SET charge_micro = charge_micro + $2 WHERE id = $1", attempt_id, CREDIT
    )
