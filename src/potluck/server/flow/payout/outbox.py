"""The outbox of the treasury: a transaction is intended, signed, broadcast and confirmed.

Each step is stored before the next one begins. One transaction is open at a time, with the nonce
that its intent has; so whatever is killed, at most one transaction with that nonce is in the chain.
"""

from datetime import timedelta

import structlog

from potluck.chain.rewards_contract import treasury_call
from potluck.chain.transaction import SignedTransaction
from potluck.decide.payouts.outbox import (
    ChainSight,
    GasFee,
    Inclusion,
    OutboxTimes,
    SendVersion,
    SettleTransaction,
    SignVersion,
    WaitForBlock,
    next_step,
)
from potluck.decide.payouts.treasury_rules import SignatureContent
from potluck.model.payout import RootState, TransactionKind, TransactionState
from potluck.server.chain.chain_gateway import ChainGateway
from potluck.server.services import Services
from potluck.server.treasury.messages import SignTransaction
from potluck.store.chain import roots, transactions
from potluck.store.chain.roots import StoredRoot
from potluck.store.chain.transactions import StoredTransaction, TransactionIntent
from potluck.store.scheduler import leader
from potluck.store.scheduler.leader import Leadership

log = structlog.get_logger()

_RESEND = timedelta(seconds=60)
# Signed, sent and looked for, in one round; more would be a loop.
_MOST_STEPS = 4


async def advance_transaction(
    services: Services, chain: ChainGateway, leadership: Leadership
) -> bool:
    """Takes the steps that can be taken now. Returns whether a transaction is still open."""
    for _ in range(_MOST_STEPS):
        async with services.database.transaction() as connection:
            open_ = await transactions.get_open(connection, chain.key)
        if open_ is None:
            return False
        sight = await _look(chain, open_)
        step = next_step(open_.open, sight, _times(services), services.clock.now())
        match step:
            case WaitForBlock():
                return True
            case SignVersion(fee):
                await _sign(services, chain, leadership, open_, fee)
            case SendVersion(version):
                await chain.broadcast(
                    SignedTransaction(version.raw, version.hash, open_.open.nonce)
                )
                async with services.database.transaction() as connection:
                    await transactions.mark_broadcast(connection, open_.id, version.hash)
            case SettleTransaction():
                await _settle(services, chain, open_, step)
    return True


async def intend(
    services: Services,
    chain: ChainGateway,
    leadership: Leadership,
    root: StoredRoot,
    kind: TransactionKind,
) -> None:
    """Stores the intent, with the nonce that it keeps. Nothing is signed yet."""
    assert chain.treasury is not None, "payouts need a treasury"
    sender = await chain.treasury.read_address()
    prepared = await chain.prepare(treasury_call(_content(chain, root, kind)), sender)
    intent = TransactionIntent(root.number, kind, sender, prepared.nonce, prepared.gas)
    async with services.database.transaction() as connection:
        if not await leader.is_current(connection, leadership):
            return
        is_new = await transactions.intend(connection, chain.key, intent)
    if is_new:
        log.info("transaction intended", kind=kind, epoch=root.number, nonce=intent.nonce)
        await advance_transaction(services, chain, leadership)


async def _look(chain: ChainGateway, open_: StoredTransaction) -> ChainSight:
    head = await chain.read_head()
    safe_block = max(head.number - chain.settings.confirmations, 0)
    receipts = await chain.find_receipts(version.hash for version in open_.open.versions)
    return ChainSight(
        safe_block,
        await chain.count_transactions(open_.intent.sender, safe_block),
        {
            receipt.hash: Inclusion(receipt.block_number, receipt.has_succeeded)
            for receipt in receipts
        },
        await chain.read_fee(),
    )


async def _sign(
    services: Services,
    chain: ChainGateway,
    leadership: Leadership,
    open_: StoredTransaction,
    fee: GasFee,
) -> None:
    assert chain.treasury is not None
    async with services.database.transaction() as connection:
        root = await roots.get(connection, chain.key, open_.intent.number)
    intent, content = open_.intent, _content(chain, root, open_.intent.kind)
    signature = await chain.treasury.sign(
        SignTransaction(
            content.chain_id,
            content.contract,
            content.kind,
            content.number,
            content.root,
            str(content.total_units),
            content.statement,
            intent.nonce,
            intent.gas,
            fee.most,
            fee.tip,
        )
    )
    async with services.database.transaction() as connection:
        if not await leader.is_current(connection, leadership):
            return
        await transactions.store_version(connection, open_.id, signature.raw, signature.hash, fee)
    if open_.open.versions:
        log.warning("transaction replaced with a higher fee", nonce=intent.nonce, fee=fee.most)


async def _settle(
    services: Services, chain: ChainGateway, open_: StoredTransaction, settled: SettleTransaction
) -> None:
    """A confirmed proposal is one of the contract, also if its owner has revoked it by now."""
    intent = open_.intent
    async with services.database.transaction() as connection:
        is_settled = await transactions.settle(connection, open_.id, settled)
        is_confirmed = settled.state is TransactionState.CONFIRMED
        if is_settled and is_confirmed and intent.kind is TransactionKind.PROPOSE:
            await roots.move(connection, chain.key, intent.number, RootState.PROPOSED)
    if is_settled:
        level = log.info if is_confirmed else log.warning
        level("transaction settled", kind=intent.kind, epoch=intent.number, state=settled.state)


def _content(chain: ChainGateway, root: StoredRoot, kind: TransactionKind) -> SignatureContent:
    return SignatureContent(
        chain.key.chain_id,
        chain.key.contract,
        kind,
        root.number,
        root.root,
        root.total_units,
        root.statement,
    )


def _times(services: Services) -> OutboxTimes:
    return OutboxTimes(_RESEND, timedelta(seconds=services.settings.rewards_stuck_seconds))
