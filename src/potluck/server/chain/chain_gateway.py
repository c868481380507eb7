"""The rewards contract, as the server reads it and sends to it: in threads, since it may take long.

Answers of an endpoint that contradict themselves are errors: an event outside the blocks that
were asked for, or a block that changed while it was read.
"""

import asyncio
from collections.abc import Iterable

from msgspec import Struct

from potluck.chain.merkle import MerkleTree
from potluck.chain.rewards_contract import ClaimEvent, DepositEvent, RewardsContract, RewardsState
from potluck.chain.rpc import ChainBlock, ChainRpc, TransactionReceipt
from potluck.chain.transaction import ContractCall, SignedTransaction, UnsignedTransaction
from potluck.decide.payouts.outbox import GasFee
from potluck.decide.payouts.scan import ScanRange
from potluck.model.error import BadSettings, ChainUnreachable
from potluck.server.chain.chain_settings import PayoutChainSettings
from potluck.server.treasury.client import TreasuryClient
from potluck.store.chain.scanned import ContractKey

# How many calls to the RPC requests of accounts make at a time. Each occupies a thread, which
# receipts and metrics need as well, for up to the time limit of the RPC.
_MOST_REQUESTS = 2


class ScannedEvents(Struct, frozen=True):
    last: ChainBlock
    deposits: list[DepositEvent]
    claims: list[ClaimEvent]


class ChainGateway:
    def __init__(
        self, settings: PayoutChainSettings, treasury: TreasuryClient | None, epoch_seconds: float
    ) -> None:
        self.settings = settings
        self.treasury = treasury
        self.key = ContractKey(settings.chain_id, settings.contract)
        self.trees: dict[bytes, MerkleTree] = {}  # by their roots; the one that was used last
        self.tree_lock = asyncio.Lock()
        self.requests = asyncio.Semaphore(_MOST_REQUESTS)
        self._epoch_seconds = epoch_seconds
        self._rpc = ChainRpc(settings.rpc_url, settings.chain_id)
        self._contract = RewardsContract(self._rpc, settings.contract)

    async def check_contract(self) -> RewardsState:
        """Raises BadSettings if the contract is not as the settings say."""
        state = await asyncio.to_thread(self._contract.read_state)
        decimals = await asyncio.to_thread(self._contract.read_token_decimals)
        if decimals != self.settings.decimals:
            raise BadSettings(
                f"The token of {self.key} has {decimals} decimals, and"
                f" POTLUCK_REWARDS_TOKEN_DECIMALS is {self.settings.decimals}.",
                "Set it to the number of the token.",
            )
        if self.treasury is not None and state.delay_seconds >= self._epoch_seconds:
            raise BadSettings(
                f"Roots of {self.key} take effect after {state.delay_seconds} s, and an epoch has"
                f" {self._epoch_seconds:g} s: proposals would fall behind.",
                "Make POTLUCK_EPOCH_SECONDS longer, or use a contract with a shorter delay.",
            )
        return state

    async def read_head(self) -> ChainBlock:
        return await asyncio.to_thread(self._rpc.read_head)

    async def find_block(self, number: int) -> ChainBlock | None:
        return await asyncio.to_thread(self._rpc.find_block, number)

    async def read_state(self, block_number: int) -> RewardsState:
        return await asyncio.to_thread(self._contract.read_state, block_number)

    async def read_events(self, blocks: ScanRange) -> ScannedEvents:
        return await asyncio.to_thread(self._read_events, blocks)

    def _read_events(self, blocks: ScanRange) -> ScannedEvents:
        before = self._rpc.find_block(blocks.last)
        deposits = self._contract.read_deposits(blocks.first, blocks.last)
        claims = self._contract.read_claims(blocks.first, blocks.last)
        after = self._rpc.find_block(blocks.last)
        if before is None or before != after:
            raise _contradiction("a block changed while it was read")
        events: list[DepositEvent | ClaimEvent] = [*deposits, *claims]
        for event in events:
            place = event.place
            if not blocks.first <= place.block_number <= blocks.last or event.amount <= 0:
                raise _contradiction("an event is outside the requested blocks")
            if place.block_number == after.number and place.block_hash != after.hash:
                raise _contradiction("an event is of another block")
        return ScannedEvents(after, deposits, claims)

    async def prepare(self, call: ContractCall, sender: str) -> UnsignedTransaction:
        """With the next nonce of the sender. Raises TransactionRefused if it would fail now."""

        def prepare() -> UnsignedTransaction:
            return self._rpc.prepare(call, sender, self._rpc.next_nonce(sender))

        return await asyncio.to_thread(prepare)

    async def read_fee(self) -> GasFee:
        fee = await asyncio.to_thread(self._rpc.read_fee)
        return GasFee(fee.max_fee, fee.max_tip)

    async def count_transactions(self, sender: str, block_number: int) -> int:
        return await asyncio.to_thread(self._rpc.count_transactions, sender, block_number)

    async def find_receipts(self, hashes: Iterable[bytes]) -> list[TransactionReceipt]:
        receipts = [
            await asyncio.to_thread(self._rpc.find_receipt, transaction_hash)
            for transaction_hash in hashes
        ]
        return [receipt for receipt in receipts if receipt is not None]

    async def broadcast(self, transaction: SignedTransaction) -> None:
        await asyncio.to_thread(self._rpc.broadcast, transaction)


def _contradiction(what: str) -> ChainUnreachable:
    return ChainUnreachable(
        f"The RPC contradicts itself: {what}.", "The server asks again. Use an RPC that you trust."
    )
