"""Reads deposits and claims from the chain, in order, and credits deposits.

The cursor moves in the transaction that stores the events before it. If the block at the cursor is
no longer in the chain, what was credited may not exist: nothing is taken back, nothing further is
credited, and an admin decides.
"""

import structlog

from potluck.chain.rewards_contract import ClaimEvent, DepositEvent
from potluck.decide.payouts.scan import Reorganised, ScanCursor, ScanRange, next_scan
from potluck.decide.payouts.token_rate import MOST_MICRO, TokenRate
from potluck.server.chain.chain_gateway import ChainGateway, ScannedEvents
from potluck.server.services import Services
from potluck.store.chain import scanned
from potluck.store.chain.scanned import NewClaim, NewDeposit
from potluck.store.scheduler import leader
from potluck.store.scheduler.leader import Leadership

log = structlog.get_logger()

_BATCH = 100


async def read_chain(services: Services, chain: ChainGateway, leadership: Leadership) -> bool:
    """Reads all blocks that have enough confirmations. False if the chain was reorganised."""
    while True:
        async with services.database.transaction() as connection:
            contract = await scanned.get_contract(connection, chain.key)
        assert contract is not None, "it is known before it is read"
        cursor, head = contract.cursor, await chain.read_head()
        block = None if cursor.hash is None else await chain.find_block(cursor.block)
        step = next_scan(
            cursor,
            None if block is None else block.hash,
            head.number,
            chain.settings.confirmations,
            chain.settings.blocks_per_request,
        )
        async with services.database.transaction() as connection:
            await scanned.note_head(connection, chain.key, head.number)
        if isinstance(step, Reorganised):
            await halt(services, chain, leadership, _reorganised(step.block))
            return False
        if not isinstance(step, ScanRange):
            return True
        events = await chain.read_events(step)
        if not await _store(services, chain, leadership, cursor, events):
            return False


async def credit_deposits(services: Services, chain: ChainGateway, leadership: Leadership) -> None:
    """Each once: the row, the ledger's index and the lock of the row agree."""
    credited = _BATCH
    while credited == _BATCH:
        async with services.database.transaction() as connection:
            if not await leader.is_current(connection, leadership):
                return
            credited = await scanned.credit_deposits(connection, chain.key, _BATCH)
        if credited:
            log.info("deposits credited", deposits=credited)


async def halt(
    services: Services, chain: ChainGateway, leadership: Leadership, because: str
) -> None:
    async with services.database.transaction() as connection:
        if not await leader.is_current(connection, leadership):
            return
        is_new = await scanned.halt(connection, chain.key, because)
    if is_new:
        log.error("deposits and payouts have stopped", contract=str(chain.key), detail=because)


async def _store(
    services: Services,
    chain: ChainGateway,
    leadership: Leadership,
    cursor: ScanCursor,
    events: ScannedEvents,
) -> bool:
    """False if another instance was faster."""
    rate = chain.settings.rate
    async with services.database.transaction() as connection:
        contract = await scanned.lock_contract(connection, chain.key)
        is_current = await leader.is_current(connection, leadership)
        if not is_current or contract.cursor != cursor or contract.halted_because is not None:
            return False
        await scanned.add_events(
            connection,
            chain.key,
            ScanCursor(events.last.number, events.last.hash),
            [_deposit(event, rate) for event in events.deposits],
            [_claim(event, rate) for event in events.claims],
        )
    return True


def _deposit(event: DepositEvent, rate: TokenRate) -> NewDeposit:
    micro = rate.to_micro(event.amount)
    is_creditable = 0 < micro <= MOST_MICRO
    if not is_creditable:
        log.warning("a deposit cannot be credited", account=event.account, units=str(event.amount))
    return NewDeposit(
        event.place, event.account, event.payer, event.amount, micro if is_creditable else None
    )


def _claim(event: ClaimEvent, rate: TokenRate) -> NewClaim:
    """At most what the ledger can count: a root that this ledger did not make may have paid it."""
    micro = min(max(rate.to_micro(event.amount), 1), MOST_MICRO)
    return NewClaim(event.place, event.account, event.amount, event.cumulative, event.root, micro)


def _reorganised(block: int) -> str:
    return (
        f"Block {block} of the chain is no longer the one that was read: a reorganisation was"
        " deeper than POTLUCK_REWARDS_CONFIRMATIONS. Deposits that were credited may be gone."
    )
