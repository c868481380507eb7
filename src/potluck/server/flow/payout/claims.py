"""Claims that were seen on the chain become payouts of the ledger, each once.

A claim that the ledger has not assigned to the contract waits: the ledger was restored from an
older backup, and catches up as epochs are closed; or the root was not of this ledger.
"""

from collections.abc import Sequence

import structlog

from potluck.model.ids import AccountId
from potluck.server.chain.chain_gateway import ChainGateway
from potluck.server.services import Services
from potluck.store.chain import scanned
from potluck.store.chain.scanned import ClaimPosition, ContractKey, UnpaidClaim
from potluck.store.ledger.payouts import Payout
from potluck.store.scheduler import leader
from potluck.store.scheduler.leader import Leadership

log = structlog.get_logger()

_BATCH = 500


async def record_claims(services: Services, chain: ChainGateway, leadership: Leadership) -> None:
    """All that wait, also behind many that the ledger does not cover."""
    after: ClaimPosition | None = ClaimPosition()
    while after is not None:
        after = await _record_some(services, chain, leadership, after)


async def _record_some(
    services: Services, chain: ChainGateway, leadership: Leadership, after: ClaimPosition
) -> ClaimPosition | None:
    """Returns the last one that was looked at; None if there are no more."""
    async with services.database.transaction() as connection:
        if not await leader.is_current(connection, leadership):
            return None
        claims = await scanned.lock_unpaid_claims(connection, chain.key, after, _BATCH)
        account_ids = sorted({c.account_id for c in claims if c.account_id is not None})
        assigned = await scanned.lock_assigned(connection, chain.key, account_ids)
        covered = _select_covered(claims, assigned)
        paid = [(claim, _payout(chain.key, claim, owner)) for claim, owner in covered]
        if paid:
            await scanned.pay_claims(connection, chain.key, paid)
    if paid:
        log.info("claims recorded as payouts", claims=len(paid))
    if len(claims) < _BATCH:
        return None
    return ClaimPosition(claims[-1].block_number, claims[-1].log_index)


def _select_covered(
    claims: Sequence[UnpaidClaim], assigned: dict[AccountId, int]
) -> list[tuple[UnpaidClaim, AccountId]]:
    """Those that the ledger covers, for each account in the order of the chain."""
    left, covered = dict(assigned), list[tuple[UnpaidClaim, AccountId]]()
    for claim in claims:
        owner = claim.account_id
        if owner is None:
            continue
        if claim.amount_micro <= left[owner]:
            left[owner] -= claim.amount_micro
            covered.append((claim, owner))
        else:
            left[owner] = 0  # a later claim does not overtake it
    return covered


def _payout(key: ContractKey, claim: UnpaidClaim, account_id: AccountId) -> Payout:
    transaction = f"0x{claim.transaction_hash.hex()}"
    payout_id = f"{key.chain_id}:{key.contract}:{transaction}:{claim.log_index}"
    return Payout(payout_id, account_id, claim.amount_micro, transaction)
