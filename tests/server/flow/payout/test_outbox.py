"""Transactions of the treasury on a real chain: stuck, replaced, superseded, without a treasury."""

from potluck.chain.transaction import ContractCall
from potluck.server.treasury.client import TreasuryClient
from tests.chain.rewards import PROPOSER, STRANGER
from tests.server.flow.payout.payout_pool import CREDIT, PayingPool
from tests.server.flow.payout.test_roots import funded
from tests.wallets import Wallet


async def test_a_stuck_transaction_is_replaced_with_its_nonce(paying: PayingPool) -> None:
    await funded(paying)
    await paying.round()
    paying.rig.chain.ask("evm_setAutomine", False)
    try:
        await paying.round(2)
        assert (await paying.states())[1] == "broadcast"
        await paying.pool.sql(
            "UPDATE chain_transaction_versions SET signed_at = now() - interval '1 hour'"
        )
        await paying.round(2)
    finally:
        paying.rig.chain.ask("evm_setAutomine", True)
    assert await paying.pool.sql("SELECT count(*) FROM chain_transactions") == 1
    assert await paying.pool.sql("SELECT count(*) FROM chain_transaction_versions") == 2
    assert await paying.pool.sql(
        "SELECT min(max_fee) * 1.1 < max(max_fee) FROM chain_transaction_versions"
    )
    paying.mine()
    await paying.pay_out()
    assert await paying.claim("carol") == 7 * CREDIT
    assert await paying.pool.sql(
        "SELECT hash = (SELECT hash FROM chain_transaction_versions ORDER BY version DESC LIMIT 1)"
        " FROM chain_transactions WHERE kind = 'propose'"
        " AND id = (SELECT transaction_id FROM chain_transaction_versions WHERE version = 2)"
    )


async def test_a_nonce_that_was_used_elsewhere_ends_the_transaction(paying: PayingPool) -> None:
    """Somebody used the key beside the treasury: the payout is made with the next nonce."""
    await funded(paying)
    await paying.round()
    paying.rig.chain.ask("evm_setAutomine", False)
    try:
        await paying.round()
        hash_ = await paying.pool.sql("SELECT hash FROM chain_transaction_versions")
        paying.rig.chain.ask("anvil_dropTransaction", f"0x{hash_.hex()}")
    finally:
        paying.rig.chain.ask("evm_setAutomine", True)
    paying.rig.rpc.send(ContractCall(Wallet("x").address, b""), PROPOSER)
    paying.mine()
    await paying.round(2)
    assert (
        await paying.pool.sql("SELECT state FROM chain_transactions ORDER BY id LIMIT 1")
        == "superseded"
    )
    await paying.pay_out()
    assert await paying.claim("carol", STRANGER) == 7 * CREDIT


async def test_without_a_treasury_deposits_are_credited_and_nothing_is_paid(
    paying: PayingPool,
) -> None:
    chain = paying.pool.services.chain
    assert chain is not None
    chain.treasury = None
    carol = await paying.add_wallet("carol")
    paying.rig.deposit(9 * CREDIT, Wallet("carol").address)
    await paying.reward(carol, CREDIT)
    await paying.close_epoch()
    paying.mine()
    await paying.round(3)
    assert (await paying.pool.balance(carol)).available_micro == 9 * CREDIT
    assert await paying.pool.sql("SELECT count(*) FROM chain_roots") == 0


async def test_a_treasury_that_is_away_is_waited_for(paying: PayingPool) -> None:
    await funded(paying)
    good = paying.pool.services.chain
    assert good is not None
    await paying.round()
    treasury, good.treasury = good.treasury, TreasuryClient(paying.directory / "nothing")
    await paying.round(2)
    assert await paying.pool.sql("SELECT count(*) FROM chain_transactions") == 0
    assert "treasury" in await paying.pool.sql("SELECT waits_because FROM chain_contracts")
    good.treasury = treasury
    await paying.pay_out()
    assert await paying.claim("carol") == 7 * CREDIT
