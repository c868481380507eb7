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

    Blocks up to the last one with enough confirmations are not read again: a deposit may be in
    another place of them now, and would be credited twice. A root that the contract has accepted
    and this ledger does not know becomes its own; so the next one has the next number. A root that
    was revoked is proposed again.
    """
    chain = services.chain
    if chain is None:
        raise Conflict("This server has no rewards contract.", "Set POTLUCK_REWARDS_CONTRACT.")
    cursor, unknown = await _look(chain)
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
            connection, chain.key, None if contract.halted_because is None else cursor
        )
        await audit.append(
            connection,
            services.keys.audit,
            AuditKind.PAYOUTS_RESUMED,
            actor,
            actor,
            {"contract": str(chain.key), "because": contract.halted_because or "revoked"},
        )


async def _look(chain: ChainGateway) -> tuple[ScanCursor | None, StoredRoot | None]:
    """The last block with enough confirmations, and the contract's root there."""
    head = await chain.read_head()
    block = await chain.find_block(max(head.number - chain.settings.confirmations, 0))
    if block is None:
        return None, None
    current = (await chain.read_state(block.number)).current
    root = None
    if current is not None:
        root = StoredRoot(
            current.epoch, None, current.root, current.total, current.statement, RootState.ACCEPTED
        )
    return ScanCursor(block.number, block.hash), root
