"""Random histories of a pool with a contract: propose, accept, claim and deposit among the rest."""

import pytest

from potluck.chain.rewards_contract import claim_call
from potluck.server.flow.payout.proof import find_proof
from tests.chain.rewards import DELAY_SECONDS, STRANGER
from tests.server.flow.payout.payout_pool import CREDIT, PayingPool
from tests.server.flow.settle.money_history import MoneyHistory, shorten_slices
from tests.wallets import Wallet

STEPS = 60
_ROUNDS_TO_DRAIN = 12


class ChainHistory(MoneyHistory):
    """A round may crash at any of its transactions; the chain and the treasury go on."""

    paying: PayingPool

    weights = MoneyHistory.weights | {
        "submit": 12,
        "assign": 12,
        "start": 12,
        "finish": 16,
        "choose_rewards": 1,
        "mark_paid": 1,
        "end_epoch": 6,
        "deposit": 3,
        "round": 20,
        "add_blocks": 8,
        "pass_delay": 3,
        "claim": 6,
    }

    async def deposit(self) -> None:
        wallet = Wallet(self.random.choice(("alice", "bob"))).address
        self.paying.rig.deposit(self.random.choice((1, CREDIT, 12_345_678)), wallet)

    async def round(self) -> None:
        await self.paying.round()

    async def add_blocks(self) -> None:
        self.paying.mine(self.random.randint(1, 4))

    async def pass_delay(self) -> None:
        self.paying.rig.pass_time(DELAY_SECONDS)

    async def claim(self) -> None:
        """By anyone; refused if there is nothing, or if another root has become current."""
        wallet = Wallet(self.random.choice(("bob", "carol"))).address
        proof = await find_proof(self.pool.services, wallet)
        if proof is not None:
            call = claim_call(self.paying.rig.address, proof.leaf, proof.root, proof.proof)
            self.paying.rig.rpc.send(call, STRANGER)

    async def check(self) -> None:
        await super().check()
        state = self.paying.rig.contract.read_state()
        wallets = ("bob", "carol")
        paid = sum(self.paying.rig.balance(Wallet(name).address) for name in wallets)
        assert paid == state.total_claimed
        recorded = await self.pool.sql(
            "SELECT coalesce(sum(amount_micro), 0)::bigint FROM payouts"
            " WHERE id IN (SELECT payout_id FROM chain_claims)"
        )
        assert recorded <= paid, "\n".join(self.trace)
        assigned = await self.pool.sql(
            "SELECT coalesce(sum(amount_micro), 0)::bigint FROM chain_rewards"
        )
        assert paid <= assigned, "\n".join(self.trace)

    async def drain(self) -> None:
        await super().drain()
        for _ in range(_ROUNDS_TO_DRAIN):
            await self.round()
            self.paying.rig.pass_time(DELAY_SECONDS)
            self.paying.mine()
        await self.check()
        await self.paying.check_totals()
        assert not await self.pool.sql(
            "SELECT count(*) FROM chain_transactions WHERE state <> 'confirmed'"
        )
        assert not await self.pool.sql("SELECT halted_because FROM chain_contracts")


async def run(paying: PayingPool, seed: int, steps: int) -> ChainHistory:
    paying.rig.deposit(10**15, Wallet("alice").address)
    shorten_slices(paying.pool)
    history = ChainHistory(paying.pool, seed)
    history.paying = paying
    await history.prepare()
    await paying.pool.sql("UPDATE accounts SET rewards_to = 'payout'")
    await history.run(steps)
    return history


@pytest.mark.parametrize("seed", [1])
async def test_a_history_with_a_chain_and_crashes(paying: PayingPool, seed: int) -> None:
    history = await run(paying, seed, STEPS)
    assert history.crashes


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 120))
async def test_many_long_histories_with_a_chain(paying: PayingPool, seed: int) -> None:
    await run(paying, seed, 200)
