"""Charges and ledger entries, in integer micro-credits; charges are rounded down."""

from datetime import datetime, timedelta

from msgspec import Struct

from potluck.model.credit import EntryKind, Purse
from potluck.model.ids import AccountId

_MICROSECONDS_PER_HOUR = 3_600_000_000


class LedgerSide(Struct, frozen=True):
    """One side of a transfer; the sides sum to zero. Without an account it is the platform's."""

    account_id: AccountId | None
    kind: EntryKind
    purse: Purse
    amount_micro: int


class Billable(Struct, frozen=True):
    """The facts that decide the charge of an attempt when it ends."""

    consumer_id: AccountId
    provider_id: AccountId
    price_micro_per_hour: int
    hold_micro: int
    run_seconds_limit: float
    started_at: datetime | None
    reported_run_seconds: float | None  # by the provider, if it reported one
    items_seconds: float = 0.0  # of an array: the time of its accepted items
    charged_micro: int = 0  # before it was lost and adopted again


def hold_micro(price_micro_per_hour: int, run_seconds: float) -> int:
    """The hold for an attempt: the price of running to its time limit, rounded up."""
    microseconds = round(run_seconds * 1_000_000)
    return -(-price_micro_per_hour * microseconds // _MICROSECONDS_PER_HOUR)


def charge_micro(work: Billable, finished_at: datetime) -> int:
    """Charges the time the server measured, at most the time the provider reported."""
    if work.started_at is None:
        return 0
    seconds = max(0.0, (finished_at - work.started_at) / timedelta(seconds=1))
    seconds = min(seconds, work.run_seconds_limit)
    if work.reported_run_seconds is not None:
        seconds = min(seconds, work.reported_run_seconds)
    charge = work.price_micro_per_hour * round(seconds * 1_000_000) // _MICROSECONDS_PER_HOUR
    return max(0, min(charge, work.hold_micro) - work.charged_micro)


def hold_entries(consumer_id: AccountId, amount_micro: int) -> tuple[LedgerSide, ...]:
    return _moved(consumer_id, EntryKind.HOLD, amount_micro, Purse.AVAILABLE, Purse.HELD)


def settle_entries(work: Billable, charge: int) -> tuple[LedgerSide, ...]:
    """Pays the charge from the held credit to the provider, and refunds the rest."""
    assert 0 <= charge <= work.hold_micro
    paid = (
        LedgerSide(work.consumer_id, EntryKind.CHARGE, Purse.HELD, -charge),
        LedgerSide(work.provider_id, EntryKind.REWARD, Purse.AVAILABLE, charge),
    )
    refund = work.hold_micro - charge
    back = _moved(work.consumer_id, EntryKind.REFUND, refund, Purse.HELD, Purse.AVAILABLE)
    return (*(paid if charge else ()), *back)


def grant_entries(account_id: AccountId, amount_micro: int) -> tuple[LedgerSide, ...]:
    return (
        LedgerSide(None, EntryKind.GRANT, Purse.ISSUED, -amount_micro),
        LedgerSide(account_id, EntryKind.GRANT, Purse.AVAILABLE, amount_micro),
    )


def _moved(
    account_id: AccountId, kind: EntryKind, amount_micro: int, source: Purse, target: Purse
) -> tuple[LedgerSide, ...]:
    if amount_micro == 0:
        return ()
    return (
        LedgerSide(account_id, kind, source, -amount_micro),
        LedgerSide(account_id, kind, target, amount_micro),
    )
