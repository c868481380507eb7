"""One round between the ledger and the contract: read the chain, credit, record claims, pay.

Each step is a short transaction of its own, and continues after a crash where the last one stopped:
an event of the chain counts once, a root is planned before it is proposed, and a transaction is
stored before it is sent. What cannot be reached is logged, and asked again in the next round.
"""

import structlog

from potluck.model.error import BadSettings, ChainUnreachable, TransactionRefused
from potluck.server.chain.chain_gateway import ChainGateway
from potluck.server.flow.payout.claims import record_claims
from potluck.server.flow.payout.outbox import advance_transaction
from potluck.server.flow.payout.roots import advance_root
from potluck.server.flow.payout.scan import credit_deposits, read_chain
from potluck.server.services import Services
from potluck.store.chain import scanned
from potluck.store.chain.scanned import KnownContract
from potluck.store.scheduler import leader
from potluck.store.scheduler.leader import Leadership

log = structlog.get_logger()

_NOT_NOW = (ChainUnreachable, BadSettings, TransactionRefused)


async def follow_chain(services: Services, leadership: Leadership) -> None:
    """One round. Never raises because of the chain or the treasury."""
    chain = services.chain
    if chain is None:
        return
    try:
        contract = await _know_contract(services, chain, leadership)
        if contract is None or contract.halted_because is not None:
            return
        if not await read_chain(services, chain, leadership):
            return
        await credit_deposits(services, chain, leadership)
        await record_claims(services, chain, leadership)
        waits = ""
        if chain.treasury is not None and not await advance_transaction(
            services, chain, leadership
        ):
            waits = await advance_root(services, chain, leadership)
    except _NOT_NOW as error:
        log.warning("the chain cannot be followed now", code=error.code, detail=error.detail)
        waits = error.detail
    async with services.database.transaction() as connection:
        await scanned.note_wait(connection, chain.key, waits)


async def _know_contract(
    services: Services, chain: ChainGateway, leadership: Leadership
) -> KnownContract | None:
    """Its row, which is made when it is first used."""
    async with services.database.transaction() as connection:
        contract = await scanned.get_contract(connection, chain.key)
    if contract is None:
        state = await chain.check_contract()
        async with services.database.transaction() as connection:
            if not await leader.is_current(connection, leadership):
                return None
            await scanned.add_contract(
                connection, chain.key, state.token, chain.settings.rate, chain.settings.first_block
            )
            contract = await scanned.get_contract(connection, chain.key)
        assert contract is not None, "it was just added"
    if contract.rate != chain.settings.rate:
        raise BadSettings(
            f"{chain.key} was used with another number of decimals or credits per token.",
            "Set POTLUCK_REWARDS_TOKEN_DECIMALS and POTLUCK_REWARDS_CREDITS_PER_TOKEN as before,"
            " or use a new contract.",
        )
    return contract
