"""Compares a root with the ledger, through a connection of the treasury's own that only reads.

The root, the total and the hash of the statement are computed again from the rows. What each wallet
has in the root must be covered by entries of the ledger: rewards that were earned, set aside by
closed epochs, and neither paid outside nor assigned to another contract.
"""

import asyncio
from collections.abc import Callable

import asyncpg
import structlog

from potluck.chain.merkle import MerkleTree, make_leaves
from potluck.decide.payouts.token_rate import TokenRate
from potluck.decide.payouts.treasury_rules import SignatureContent
from potluck.model.error import StartFailed
from potluck.store.chain import treasury_view
from potluck.store.chain.scanned import ContractKey
from potluck.store.chain.treasury_view import TreasuryView
from potluck.store.connector import DatabaseConnector
from potluck.store.database import NOT_NOW

log = structlog.get_logger()


async def find_ledger_objection(
    find_ledger: Callable[[], str], content: SignatureContent, rate: TokenRate
) -> str | None:
    """Why the ledger does not support this root; None if it does."""
    key = ContractKey(content.chain_id, content.contract)
    try:
        view = await _read(find_ledger(), key, content.number)
    except (asyncpg.PostgresError, StartFailed, *NOT_NOW) as error:
        log.warning("the ledger cannot be read", detail=type(error).__name__)
        return "the ledger cannot be read now"
    if view is None:
        return f"the ledger has no root of epoch {content.number}"
    if view.rate != rate:
        return "the ledger has another rate of tokens and credits than the treasury's settings"
    for wallet in view.wallets:
        if wallet.assigned_micro + wallet.elsewhere_micro > wallet.set_aside_micro:
            return f"{wallet.address} would get more than the ledger has set aside for it"
        if wallet.set_aside_micro > wallet.earned_micro:
            return f"the ledger has set aside more for {wallet.address} than it has earned"
    return await asyncio.to_thread(_find_difference, view, content)


async def _read(database_url: str, key: ContractKey, number: int) -> TreasuryView | None:
    connection = await DatabaseConnector(database_url).connect(
        server_settings={"application_name": "potluck-treasury", "timezone": "UTC"},
        command_timeout=60,
    )
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            return await treasury_view.read(connection, key, number)
    finally:
        await connection.close()


def _find_difference(view: TreasuryView, content: SignatureContent) -> str | None:
    leaves = make_leaves(view.token, view.rate, {w.address: w.assigned_micro for w in view.wallets})
    if sum(leaf.cumulative for leaf in leaves) != content.total_units:
        return "its total is not that of the ledger"
    if not leaves or MerkleTree(leaves).root != content.root:
        return "it is not the root of the ledger"
    if view.statement != content.statement:
        return "its statement is not that of the epoch in the ledger"
    return None
