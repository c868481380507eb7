"""Payouts: what an operator paid outside the pool is recorded once, all rows or none."""

from collections.abc import Iterator, Sequence
from itertools import islice

from asyncpg import UniqueViolationError
from msgspec.structs import replace

from potluck.model.audit import AuditKind
from potluck.model.error import Conflict, InvalidInput
from potluck.model.ids import AccountId
from potluck.model.units import show_amount
from potluck.server.services import Services
from potluck.store.identity import audit
from potluck.store.ledger import payouts
from potluck.store.ledger.payouts import ClaimableBalance, Payout, RecordedPayout
from potluck.wire.money.rewards import BadRow, PaidRow, PayoutsMarked
from potluck.wire.signing.address import checksummed

# In one response.
_MAX_BAD_ROWS = 1_000


async def mark_paid(services: Services, actor: AccountId, rows: Sequence[PaidRow]) -> PayoutsMarked:
    """Records the rows that are not recorded yet; none of them if a row is bad.

    The same row again has no effect, so a file can be marked again after a lost response.
    """
    rows = [replace(row, wallet=_spelled(row.wallet)) for row in rows]
    wallets = sorted({row.wallet for row in rows if row.wallet})
    try:
        async with services.database.transaction() as connection:
            claimable = await payouts.lock_claimable(connection, wallets)
            recorded = await payouts.list_recorded(connection, [row.id for row in rows])
            bad = list(islice(_bad_rows(rows, claimable, recorded), _MAX_BAD_ROWS))
            if bad:
                return PayoutsMarked(0, 0, 0, bad)
            new = [
                Payout(row.id, claimable[row.wallet].account_id, row.amount_micro, row.reference)
                for row in rows
                if row.id not in recorded
            ]
            await payouts.record(connection, new, actor)
            amount_micro = sum(payout.amount_micro for payout in new)
            if new:
                details = {"payouts": str(len(new)), "amount_micro": str(amount_micro)}
                await audit.append(
                    connection, services.keys.audit, AuditKind.PAYOUTS_MARKED, actor, actor, details
                )
    except UniqueViolationError as error:
        raise Conflict(
            "Another request has just recorded one of these ids for another wallet.",
            "Try again: the response then says which row it is.",
        ) from error
    return PayoutsMarked(len(new), len(rows) - len(new), amount_micro)


def _bad_rows(
    rows: Sequence[PaidRow],
    claimable: dict[str, ClaimableBalance],
    recorded: dict[str, RecordedPayout],
) -> Iterator[BadRow]:
    left = {wallet: balance.claimable_micro for wallet, balance in claimable.items()}
    ids = set[str]()
    for number, row in enumerate(rows, 1):
        sentence = _fault(row, row.id in ids, recorded.get(row.id), left)
        ids.add(row.id)
        if sentence is not None:
            yield BadRow(number, row.id, sentence)
        elif row.id not in recorded:
            left[row.wallet] -= row.amount_micro


def _fault(
    row: PaidRow, is_repeated: bool, earlier: RecordedPayout | None, left: dict[str, int]
) -> str | None:
    if is_repeated:
        return "Its id is also that of an earlier row."
    if not row.wallet:
        return "Its wallet has a wrong checksum: a digit differs."
    if row.wallet not in left:
        return f"No account has the wallet {row.wallet}."
    if earlier is not None:
        if (earlier.address, earlier.payout.amount_micro) == (row.wallet, row.amount_micro):
            return None
        amount = show_amount(earlier.payout.amount_micro)
        return f"This id is recorded already, with {amount} for {earlier.address}."
    if row.amount_micro > left[row.wallet]:
        return f"Only {show_amount(left[row.wallet])} are claimable by {row.wallet}."
    return None


def _spelled(wallet: str) -> str:
    """As accounts have it; empty if its checksum is wrong."""
    try:
        return checksummed(wallet)
    except InvalidInput:
        return ""
