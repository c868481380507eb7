"""Roots: one at a time, known to the ledger, and for one contract."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from asyncpg import CheckViolationError

from potluck.chain.merkle import MerkleTree, RewardLeaf
from potluck.chain.rewards_contract import RewardsRoot
from potluck.model.error import Conflict
from potluck.model.ids import AccountId
from potluck.server.flow.payout import roots as payout_roots
from potluck.server.flow.payout.administration import resume_chain
from potluck.store.alerts import observations
from potluck.store.chain import roots
from potluck.store.chain.scanned import ContractKey
from potluck.store.ledger import payouts
from potluck.store.ledger.payouts import Payout
from tests.chain.rewards import OWNER, PROPOSER, RewardsRig
from tests.server.flow.payout.payout_pool import CREDIT, PayingPool
from tests.wallets import Wallet


async def funded(paying: PayingPool, micro: int = 7 * CREDIT) -> AccountId:
    carol = await paying.add_wallet("carol")
    paying.rig.deposit(1000 * CREDIT, Wallet("alice").address)
    await paying.reward(carol, micro)
    await paying.close_epoch()
    paying.mine()
    return carol


async def read(paying: PayingPool, column: str) -> str | None:
    column_value: str | None = await paying.pool.sql(f"SELECT {column} FROM chain_contracts")
    return column_value


async def why_it_waits(paying: PayingPool) -> str | None:
    """As `potluck admin epochs` shows it."""
    async with paying.pool.services.database.transaction() as connection:
        (root,) = await roots.list_of_epochs(connection, [1])
    return root.waits_because


async def test_a_contract_that_replaces_another_pays_only_new_rewards(paying: PayingPool) -> None:
    carol = await funded(paying)
    await paying.pay_out()
    await paying.claim("carol")
    paying.mine()
    await paying.round()
    first = paying.rig
    paying.use(RewardsRig(first.chain))
    # The key has another nonce by now, and the journal has roots of the first contract.
    async with replaced_treasury(paying):
        paying.rig.deposit(1000 * CREDIT, Wallet("alice").address)
        await paying.round(3)
        assert await paying.pool.sql("SELECT count(*) FROM chain_roots") == 1, "nothing is new"
        await paying.reward(carol, 2 * CREDIT)
        await paying.close_epoch()
        await paying.pay_out()
        before = paying.rig.balance(Wallet("carol").address)
        assert before == 0
        assert await paying.claim("carol") == 2 * CREDIT
        assert first.balance(Wallet("carol").address) == 7 * CREDIT
        paying.mine()
        await paying.round()
        await paying.check_totals()


def replaced_treasury(paying: PayingPool) -> AbstractAsyncContextManager[str]:
    paying.socket = Path(paying.directory) / "second" / "socket"
    paying.directory = Path(paying.directory) / "second"
    paying.use(paying.rig)
    return paying.treasury()


async def test_a_root_that_is_not_of_this_ledger_stops_payouts(paying: PayingPool) -> None:
    """Somebody has the proposer's key."""
    await funded(paying)
    paying.mine()
    tree = MerkleTree([RewardLeaf(Wallet("mallory").address, paying.rig.token, CREDIT)])
    paying.rig.contract.propose(RewardsRoot(tree.root, 1, CREDIT, b"s" * 32), PROPOSER)
    paying.mine()
    await paying.round(3)
    assert "did not make" in (await read(paying, "halted_because") or "")
    paying.rig.deposit(3 * CREDIT, Wallet("alice").address)
    # The owner revokes it; then an admin continues.
    paying.rig.ask(OWNER, "revoke_root", tree.root)
    paying.mine()
    await resume_chain(paying.pool.services, paying.pool.alice)
    await paying.round()
    balance = await paying.pool.balance(paying.pool.alice)
    assert balance.available_micro == 1003 * CREDIT, "deposits from meanwhile are credited"
    await paying.pay_out()
    assert await paying.claim("carol") == 7 * CREDIT


async def test_a_root_that_the_owner_revoked_waits_for_an_admin(paying: PayingPool) -> None:
    await funded(paying)
    await paying.round(2)
    paying.mine()
    await paying.round()
    assert await paying.states() == ("proposed", "confirmed")
    root = await paying.pool.sql("SELECT root FROM chain_roots")
    paying.rig.ask(OWNER, "revoke_root", root)
    paying.mine()
    await paying.round(3)
    assert (await paying.states())[0] == "revoked"
    assert "revoked" in (await read(paying, "waits_because") or "")
    await resume_chain(paying.pool.services, paying.pool.alice)
    await paying.pay_out()
    assert await paying.claim("carol") == 7 * CREDIT


async def test_too_few_tokens_are_waited_for_with_a_reason(paying: PayingPool) -> None:
    carol = await paying.add_wallet("carol")
    await paying.reward(carol, 7 * CREDIT)
    await paying.close_epoch()
    paying.mine()
    await paying.round(3)
    assert "too few tokens" in (await why_it_waits(paying) or "")
    paying.rig.deposit(7 * CREDIT, Wallet("alice").address)
    paying.mine()
    await paying.pay_out()
    assert await why_it_waits(paying) is None
    assert await paying.claim("carol") == 7 * CREDIT


async def test_a_root_may_be_accepted_by_another_account(paying: PayingPool) -> None:
    await funded(paying)
    await paying.round(2)
    paying.mine()
    await paying.round()
    paying.rig.accept()
    paying.mine()
    await paying.round(2)
    assert (await paying.states())[0] == "accepted"
    assert await paying.pool.sql("SELECT count(*) FROM chain_transactions") == 1


async def test_a_root_locks_a_bounded_number_of_balances(
    paying: PayingPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The smaller reward is in the root after it."""
    monkeypatch.setattr(payout_roots, "_MOST_REWARDS", 1)
    dora = await paying.add_wallet("dora")
    await paying.reward(dora, 3 * CREDIT)
    await funded(paying)
    key = ContractKey(paying.rig.chain.chain_id, paying.rig.address)
    for number, (carols, doras) in enumerate(((7, None), (7, 3)), 1):
        await paying.pay_out()
        async with paying.pool.services.database.transaction() as connection:
            leaves = await roots.list_leaves(connection, key, number)
            assert (await roots.get(connection, key, number)).is_partial is (number == 1)
        expected = {Wallet("carol").address: carols, Wallet("dora").address: doras}
        assert leaves == {
            address: credit * CREDIT for address, credit in expected.items() if credit is not None
        }
    assert await paying.claim("dora") == 3 * CREDIT
    paying.mine()
    await paying.round()
    await paying.check_totals()


async def test_rewards_in_a_root_cannot_be_paid_by_hand(paying: PayingPool) -> None:
    carol = await funded(paying)
    await paying.round()
    with pytest.raises(CheckViolationError):
        async with paying.pool.services.database.transaction() as connection:
            await payouts.record(connection, [Payout("by hand", carol, 1)], None)


async def test_rewards_that_wait_for_a_claim_are_not_late(paying: PayingPool) -> None:
    carol = await funded(paying)
    await paying.pay_out()
    await paying.reward(carol, 2 * CREDIT)
    await paying.close_epoch()
    async with paying.pool.services.database.transaction() as connection:
        (claimant,) = await payouts.list_claimants(connection, "", 10)
        rewards = await observations.read_rewards(connection)
        newest = await roots.get_last_epoch(connection)
    assert newest is not None
    assert (claimant.claimable_micro, claimant.unpaid_since_epoch) == (2 * CREDIT, newest.number)
    closed_at = await paying.pool.sql("SELECT max(closed_at) FROM epochs")
    age = await paying.pool.sql("SELECT extract(epoch FROM now() - $1::timestamptz)", closed_at)
    assert rewards.payout_age_seconds <= age


async def test_resuming_a_chain_that_has_not_stopped_is_refused(paying: PayingPool) -> None:
    paying.mine()
    await paying.round()
    with pytest.raises(Conflict):
        await resume_chain(paying.pool.services, paying.pool.alice)
