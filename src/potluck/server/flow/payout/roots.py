"""Roots of rewards: planned from the ledger, proposed, accepted after the contract's delay.

A root assigns what is claimable to the contract, in the transaction that stores it. So a reward is
in the roots of one contract, or is paid outside, and never both.
"""

import asyncio

import structlog

from potluck.chain.merkle import MerkleTree, make_leaves
from potluck.chain.rewards_contract import RewardsRoot, RewardsState
from potluck.decide.payouts.payout_plan import (
    AcceptRoot,
    ContractView,
    HaltPayouts,
    LedgerView,
    MoveRoot,
    PlanRoot,
    ProposeRoot,
    RestPayouts,
    RootOnChain,
    next_payout,
)
from potluck.model.payout import RootState, TransactionKind
from potluck.server.chain.chain_gateway import ChainGateway
from potluck.server.flow.payout.outbox import intend
from potluck.server.flow.payout.scan import halt
from potluck.server.services import Services
from potluck.store.chain import roots, scanned
from potluck.store.chain.roots import StoredRoot
from potluck.store.database import Connection
from potluck.store.scheduler import leader
from potluck.store.scheduler.leader import Leadership

log = structlog.get_logger()

# Their balances are locked while a root is stored; the next root has the others.
_MOST_REWARDS = 10_000


async def advance_root(services: Services, chain: ChainGateway, leadership: Leadership) -> str:
    """Takes the next step, if there is one; no transaction is open. Returns what is in the way."""
    safe_block = await _find_safe_block(services, chain)
    if safe_block is None:
        return ""
    contract = view_contract(await chain.read_state(safe_block))
    async with services.database.transaction() as connection:
        latest = await roots.get_latest(connection, chain.key)
        view = await _view_ledger(connection, chain, contract, latest)
    match next_payout(contract, view):
        case PlanRoot(number):
            await _plan(services, chain, leadership, number)
        case ProposeRoot():
            assert latest is not None
            await intend(services, chain, leadership, latest, TransactionKind.PROPOSE)
        case AcceptRoot():
            assert latest is not None
            await intend(services, chain, leadership, latest, TransactionKind.ACCEPT)
        case MoveRoot(number, state):
            await _move(services, chain, leadership, number, state)
        case HaltPayouts(because):
            await halt(services, chain, leadership, because)
        case RestPayouts(because):
            return because
    return ""


def view_contract(state: RewardsState) -> ContractView:
    return ContractView(
        state.block_time,
        _on_chain(state.current),
        _on_chain(state.pending),
        state.pending_from,
        state.is_paused,
        state.total_claimed,
        state.balance,
    )


async def _find_safe_block(services: Services, chain: ChainGateway) -> int | None:
    """The last block that was read; None before the first."""
    async with services.database.transaction() as connection:
        contract = await scanned.get_contract(connection, chain.key)
    assert contract is not None, "it is known before it is paid by"
    return None if contract.cursor.hash is None else contract.cursor.block


async def _view_ledger(
    connection: Connection, chain: ChainGateway, contract: ContractView, latest: StoredRoot | None
) -> LedgerView:
    async def knows(root: RootOnChain | None) -> bool:
        return root is None or await roots.has_root(connection, chain.key, root.number, root.root)

    return LedgerView(
        None if latest is None else latest.for_decision,
        await knows(contract.current),
        await knows(contract.pending),
        await roots.has_unassigned(connection),
    )


async def _plan(
    services: Services, chain: ChainGateway, leadership: Leadership, number: int
) -> None:
    """Dropped if an epoch was closed or something was paid meanwhile; the next round plans anew."""
    async with services.database.transaction() as connection:
        contract = await scanned.get_contract(connection, chain.key)
        epoch = await roots.get_last_epoch(connection)
        unassigned = await roots.list_unassigned(connection, _MOST_REWARDS + 1)
        micro = await roots.list_leaves(connection, chain.key, number - 1)
    if contract is None or epoch is None:
        return
    rewards, left_over = unassigned[:_MOST_REWARDS], unassigned[_MOST_REWARDS:]
    for reward in rewards:
        micro[reward.address] = micro.get(reward.address, 0) + reward.amount_micro
    leaves = make_leaves(contract.token, contract.rate, micro)
    if not leaves:  # no account has a whole unit of the token yet
        return
    tree = await asyncio.to_thread(MerkleTree, leaves)
    total = sum(leaf.cumulative for leaf in leaves)
    root = StoredRoot(
        *(number, epoch.number, tree.root, total, epoch.statement_sha256, RootState.PLANNED),
        is_partial=bool(left_over),
    )
    async with services.database.transaction() as connection:
        if not await leader.is_current(connection, leadership):
            return
        is_assigned = await roots.assign(connection, chain.key, root, rewards)
    if is_assigned:
        log.info("root planned", root=number, wallets=len(leaves), total_units=str(total))


async def _move(
    services: Services, chain: ChainGateway, leadership: Leadership, number: int, state: RootState
) -> None:
    async with services.database.transaction() as connection:
        if not await leader.is_current(connection, leadership):
            return
        is_moved = await roots.move(connection, chain.key, number, state)
    if is_moved:
        level = log.warning if state is RootState.REVOKED else log.info
        level("root moved", root=number, state=state)


def _on_chain(root: RewardsRoot | None) -> RootOnChain | None:
    return None if root is None else RootOnChain(root.root, root.epoch, root.total)
