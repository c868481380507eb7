"""Signs proposals that the ledger supports, and nothing else.

The key never signs bytes of a caller: the transaction is made here, of values that were compared
with the ledger. What was signed before is compared with the journal.
"""

import asyncio
from collections.abc import Callable

import structlog

from potluck.chain.rewards_contract import treasury_call
from potluck.chain.transaction import UnsignedTransaction, sign_transaction
from potluck.decide.payouts.treasury_rules import SignatureContent, SignatureRecord, find_objection
from potluck.model.payout import TransactionKind
from potluck.server.chain.chain_settings import PayoutChainSettings
from potluck.server.treasury.journal import TreasuryJournal
from potluck.server.treasury.ledger_check import find_ledger_objection
from potluck.server.treasury.messages import (
    ShowAddress,
    SignTransaction,
    TreasuryAddress,
    TreasuryAnswer,
    TreasuryRefusal,
    TreasuryRequest,
    TreasurySignature,
)
from potluck.wire.signing.signature import address_of

log = structlog.get_logger()

# More than any proposal needs; a wrong number would cost the gas of the key's wallet.
_MOST_GAS = 1_000_000


class TreasurySigner:
    def __init__(
        self,
        private_key: bytes,
        chain: PayoutChainSettings,
        find_ledger: Callable[[], str],
        journal: TreasuryJournal,
    ) -> None:
        self._key = private_key
        self.address = address_of(private_key)
        self._chain = chain
        self._find_ledger = find_ledger
        self._journal = journal
        self._turn = asyncio.Lock()  # two requests must not both find a nonce unused

    async def answer(self, request: TreasuryRequest) -> TreasuryAnswer:
        match request:
            case ShowAddress():
                return TreasuryAddress(self.address)
            case SignTransaction():
                async with self._turn:
                    return await self._sign(request)

    async def _sign(self, request: SignTransaction) -> TreasuryAnswer:
        content = _content(request)
        objection = await self._find_objection(request, content)
        if objection is not None:
            log.warning("refused to sign", kind=request.kind, epoch=request.number, why=objection)
            return TreasuryRefusal(objection)
        signed = sign_transaction(_transaction(request, content), self._key)
        record = SignatureRecord(content, self.address, request.nonce, signed.hash)
        if record not in self._journal.records:
            self._journal.add(record)
        log.info("signed", kind=request.kind, epoch=request.number, nonce=request.nonce)
        return TreasurySignature(signed.raw, signed.hash)

    async def _find_objection(
        self, request: SignTransaction, content: SignatureContent
    ) -> str | None:
        if (content.chain_id, content.contract) != (self._chain.chain_id, self._chain.contract):
            return f"the treasury works for {self._chain.contract} on chain {self._chain.chain_id}"
        if not 0 < request.gas <= _MOST_GAS:
            return f"{request.gas} units of gas are more than it ever needs"
        earlier = self._journal.records
        objection = find_objection(earlier, content, self.address, request.nonce)
        if objection is None and content.kind is TransactionKind.PROPOSE:
            return await find_ledger_objection(self._find_ledger, content, self._chain.rate)
        return objection


def _content(request: SignTransaction) -> SignatureContent:
    return SignatureContent(
        request.chain_id,
        request.contract,
        request.kind,
        request.number,
        request.root,
        int(request.total_units),
        request.statement,
    )


def _transaction(request: SignTransaction, content: SignatureContent) -> UnsignedTransaction:
    return UnsignedTransaction(
        request.chain_id,
        request.nonce,
        treasury_call(content),
        request.gas,
        request.max_fee,
        request.max_tip,
    )
