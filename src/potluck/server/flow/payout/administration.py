"""What an admin decides: to go on after deposits and payouts have stopped."""

from potluck.decide.payouts.scan import ScanCursor
from potluck.model.audit import AuditKind
from potluck.model.error import Conflict
from potluck.model.ids import AccountId
from potluck.model.payout import RootState
from potluck.server.chain.chain_gateway import ChainGateway
from potluck.server.services import Services
from potluck.store.chain import roots, scanned
from potluck.store.chain.roots import StoredRoot
from potluck.store.identity import audit


async def resume_chain(services: Services, actor: AccountId) -> None:
    """Continues with the chain as it is now.

    Reading continues where it stopped, so deposits and claims that were made meanwhile count. If
    the chain was reorganised, blocks up to the last one with enough confirmations are skipped: a
    deposit may be in another place of them now, and would be credited twice. A root that the
    contract has accepted and this ledger does not know becomes its own; so the next one has the
    next number. A root that was revoked is proposed again.
    """
    chain = services.chain
    if chain is None:
        raise Conflict("This server has no rewards contract.", "Set POTLUCK_REWARDS_CONTRACT.")
    async with services.database.transaction() as connection:
        known = await scanned.get_contract(connection, chain.key)
    skipped_to = None if known is None else await _find_end_of_skipped(chain, known.cursor)
    unknown = await _read_accepted_root(chain)
    async with services.database.transaction() as connection:
        contract = await scanned.get_contract(connection, chain.key)
        latest = await roots.get_latest(connection, chain.key)
        is_revoked = latest is not None and latest.state is RootState.REVOKED
        if contract is None or (contract.halted_because is None and not is_revoked):
            raise Conflict("Deposits and payouts have not stopped.", "There is nothing to resume.")
        if unknown is not None and not await roots.has_root(
            connection, chain.key, unknown.number, unknown.root
        ):
            await roots.take_over(connection, chain.key, unknown)
        if is_revoked:
            assert latest is not None
            await roots.move(connection, chain.key, latest.number, RootState.PLANNED)
        await scanned.resume(
            connection, chain.key, None if contract.halted_because is None else skipped_to
        )
        await audit.append(
            connection,
            services.keys.audit,
            AuditKind.PAYOUTS_RESUMED,
            actor,
            actor,
            {"contract": str(chain.key), "because": contract.halted_because or "revoked"},
        )


async def _find_end_of_skipped(chain: ChainGateway, cursor: ScanCursor) -> ScanCursor | None:
    """The last block that is not to be read; None if the chain still has the last one that was.

    Never before the cursor: what was read there was credited.
    """
    block = None if cursor.hash is None else await chain.find_block(cursor.block)
    if block is None or block.hash == cursor.hash:
        return None
    last = await chain.find_block(max(cursor.block, await _find_safe_block(chain)))
    return None if last is None else ScanCursor(last.number, last.hash)


async def _read_accepted_root(chain: ChainGateway) -> StoredRoot | None:
    """The contract's root at the last block with enough confirmations."""
    current = (await chain.read_state(await _find_safe_block(chain))).current
    if current is None:
        return None
    return StoredRoot(
        current.epoch, None, current.root, current.total, current.statement, RootState.ACCEPTED
    )


async def _find_safe_block(chain: ChainGateway) -> int:
    head = await chain.read_head()
    return max(head.number - chain.settings.confirmations, 0)
