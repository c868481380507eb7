"""Rewards reach a wallet through the contract, and the ledger knows what was paid."""

from tests.server.flow.payout.payout_pool import CREDIT, PayingPool
from tests.wallets import Wallet


async def test_a_reward_reaches_its_wallet(paying: PayingPool) -> None:
    carol = await paying.add_wallet("carol")
    dave = await paying.add_wallet("dave")
    paying.rig.deposit(100 * CREDIT, Wallet("alice").address)
    paying.mine()
    await paying.round()
    assert (await paying.pool.balance(paying.pool.alice)).available_micro == 100 * CREDIT
    await paying.reward(carol, 7 * CREDIT)
    await paying.reward(dave, 5 * CREDIT)
    await paying.close_epoch()
    await paying.pay_out()
    assert await paying.states() == ("accepted", "confirmed")
    assert await paying.claim("carol") == 7 * CREDIT
    paying.mine()
    await paying.round()
    await paying.check_totals()
    await paying.reward(carol, CREDIT)
    await paying.close_epoch()
    await paying.pay_out()
    assert await paying.claim("carol") == CREDIT
    assert await paying.claim("dave") == 5 * CREDIT
    paying.mine()
    await paying.round()
    await paying.check_totals()
    for account_id in (carol, dave):
        assert await paying.pool.sql(
            "SELECT (claimable_micro, assigned_micro) = (0, 0) FROM balances WHERE account_id = $1",
            account_id,
        )
