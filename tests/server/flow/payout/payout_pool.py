"""A pool with a rewards contract on anvil and a treasury: rounds, epochs, deposits and claims."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from potluck.chain.rewards_contract import RewardsContract, claim_call
from potluck.decide.charges import LedgerSide
from potluck.decide.invariants import find_violations
from potluck.decide.payouts.token_rate import TokenRate
from potluck.model.account import Role
from potluck.model.credit import EntryKind, Purse, RewardsTo
from potluck.model.ids import AccountId
from potluck.server.chain.chain_gateway import ChainGateway
from potluck.server.chain.chain_settings import PayoutChainSettings
from potluck.server.flow.payout.payout import follow_chain
from potluck.server.flow.payout.proof import find_proof
from potluck.server.flow.settle.epochs import close_epoch
from potluck.server.treasury.client import TreasuryClient
from potluck.server.treasury.process import open_treasury
from potluck.store.identity import accounts
from potluck.store.ledger import epochs, ledger
from potluck.store.ledger.ledger import Movement
from potluck.store.scheduler import invariant_snapshot
from potluck.store.scheduler.invariant_snapshot import SnapshotScope
from tests.chain.anvil import Anvil
from tests.chain.rewards import DELAY_SECONDS, OWNER, PROPOSER, STRANGER, RewardsRig
from tests.server.flow.pool import Pool
from tests.wallets import Wallet

CONFIRMATIONS = 2
CREDIT = 1_000_000


def chain_settings(rig: RewardsRig, **changes: Any) -> PayoutChainSettings:
    """The token has six decimals, so its unit is a micro-credit."""
    chain_values = PayoutChainSettings(
        rpc_url=rig.chain.url,
        chain_id=rig.chain.chain_id,
        contract=rig.address,
        decimals=6,
        rate=TokenRate(1, 1),
        confirmations=CONFIRMATIONS,
        first_block=0,
        blocks_per_request=1000,
    )
    return replace(chain_values, **changes)


class PayingPool:
    def __init__(self, pool: Pool, database_url: str, rig: RewardsRig, directory: Path) -> None:
        self.pool = pool
        self.database_url = database_url
        self.rig = rig
        self.directory = directory
        self.socket = directory / "treasury" / "socket"
        self.use(rig)
        self._payments = 0

    def use(self, rig: RewardsRig, **changes: Any) -> None:
        """The server works with this contract from now on."""
        self.rig = rig
        self.settings = chain_settings(rig, **changes)
        gateway = ChainGateway(self.settings, TreasuryClient(self.socket), 86_400.0)
        self.pool.services = replace(self.pool.services, chain=gateway)

    @asynccontextmanager
    async def treasury(self, key: bytes = PROPOSER) -> AsyncIterator[str]:
        async with open_treasury(
            self.directory / "treasury", self.socket, key, self.settings, lambda: self.database_url
        ) as address:
            yield address

    async def round(self, times: int = 1) -> None:
        for _ in range(times):
            await follow_chain(self.pool.services, self.pool.leads)

    def mine(self, blocks: int = CONFIRMATIONS) -> None:
        self.rig.chain.ask("anvil_mine", hex(blocks))

    async def add_wallet(self, name: str) -> AccountId:
        """A provider whose rewards are paid by the contract."""
        async with self.pool.services.database.transaction() as connection:
            account = await accounts.add(connection, Wallet(name).address, {Role.PROVIDER})
            assert account is not None
            await epochs.set_rewards_to(connection, account.id, RewardsTo.PAYOUT)
        return account.id

    async def reward(self, account_id: AccountId, amount_micro: int) -> None:
        """Alice pays for work, in a slice of its own of an attempt of Bob's."""
        services, self._payments = self.pool.services, self._payments + 1
        attempt = await self.pool.sql("SELECT id FROM attempts ORDER BY id LIMIT 1")
        if attempt is None:
            _, grant = await self.pool.started()
            attempt = grant.attempt_id
        await self.pool.give(self.pool.alice, amount_micro)
        postings = (
            LedgerSide(self.pool.alice, EntryKind.CHARGE, Purse.AVAILABLE, -amount_micro),
            LedgerSide(account_id, EntryKind.REWARD, Purse.AVAILABLE, amount_micro),
        )
        number = await self.pool.sql("SELECT count(*) FROM ledger_entries")
        async with services.database.transaction() as connection:
            await ledger.append_many(connection, [Movement(postings, attempt, slice=number + 1)])

    async def close_epoch(self) -> None:
        await close_epoch(self.pool.services, self.pool.leads)
        await self.pool.sql(
            "UPDATE epochs SET starts_at = now() - interval '1 day', ends_at = now()"
            " WHERE closed_at IS NULL"
        )
        assert await close_epoch(self.pool.services, self.pool.leads) is not None

    async def pay_out(self) -> None:
        """Until the contract has accepted a root with all that is claimable."""
        await self.round()  # plans, and in the next one proposes
        await self.round()
        self.mine()
        await self.round()
        self.rig.pass_time(DELAY_SECONDS)
        self.mine()
        await self.round(2)
        self.mine()
        await self.round(2)

    async def claim(self, name: str, key: bytes = STRANGER) -> int:
        """Returns what the contract paid."""
        wallet = Wallet(name).address
        before = self.rig.balance(wallet)
        proof = await find_proof(self.pool.services, wallet)
        assert proof is not None
        call = claim_call(self.rig.address, proof.leaf, proof.root, proof.proof)
        self.rig.rpc.send(call, key)
        return self.rig.balance(wallet) - before

    async def states(self) -> tuple[str | None, str | None]:
        """Of the newest root, and of the newest transaction."""
        return (
            await self.pool.sql("SELECT state FROM chain_roots ORDER BY planned_at DESC LIMIT 1"),
            await self.pool.sql("SELECT state FROM chain_transactions ORDER BY id DESC LIMIT 1"),
        )

    async def check_totals(self) -> None:
        """The chain and the ledger agree, once everything on the chain was read."""
        contract = RewardsContract(self.rig.rpc, self.rig.address)
        head = self.rig.rpc.read_head().number
        deposited = sum(event.amount for event in contract.read_deposits(0, head))
        key = (self.rig.chain.chain_id, self.rig.address)
        of_contract = "WHERE chain_id = $1 AND contract = $2"
        credited = await self.pool.sql(
            "SELECT coalesce(-sum(entry.amount_micro), 0)::bigint FROM ledger_entries AS entry"
            f" JOIN chain_deposits ON deposit_id = chain_deposits.id {of_contract}"
            " AND account_id IS NULL",
            *key,
        )
        paid = await self.pool.sql(
            "SELECT coalesce(sum(payouts.amount_micro), 0)::bigint FROM payouts"
            f" JOIN chain_claims ON payout_id = payouts.id {of_contract}",
            *key,
        )
        assigned = await self.pool.sql(
            f"SELECT coalesce(sum(amount_micro), 0)::bigint FROM chain_rewards {of_contract}", *key
        )
        state = contract.read_state()
        assert credited == deposited
        assert paid == state.total_claimed
        assert assigned == (0 if state.current is None else state.current.total)
        await self.check_purses()

    async def check_purses(self) -> None:
        ids = await self.pool.sql("SELECT array_agg(id) FROM accounts")
        async with self.pool.services.database.transaction() as connection:
            scope = SnapshotScope(account_ids=ids)
            violations = find_violations(await invariant_snapshot.sample(connection, scope))
        assert not violations, violations


@asynccontextmanager
async def open_paying(
    pool: Pool, database_url: str, chain: Anvil, directory: Path
) -> AsyncIterator[PayingPool]:
    async with AsyncExitStack() as stack:
        opened = PayingPool(pool, database_url, RewardsRig(chain), directory)
        await stack.enter_async_context(opened.treasury())
        yield opened


__all__ = ["OWNER", "PayingPool", "open_paying"]
