"""Charges and ledger entries, in integer micro-credits; charges and fees are rounded down.

A short attempt is charged when it ends. A long one is charged in slices while it runs, and the
reward for a slice is held back until the attempt ends or has secured the time. So the hold covers
only the time ahead: two slices, and a last checkpoint.
"""

from datetime import datetime, timedelta
from math import inf
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from potluck.model.credit import EntryKind, Purse
from potluck.model.ids import AccountId

BASIS_POINTS: Final = 10_000
_MICROSECONDS_PER_HOUR = 3_600_000_000
# As a part of a whole one; a shorter one is not worth going on for.
_SHORTEST_SLICE = 0.1


class SettleTimes(Struct, frozen=True):
    """How long a slice is, and how long a task gets for its last checkpoint."""

    slice_seconds: float = 300.0
    checkpoint_seconds: float = 60.0
    # How late a task may be asked to stop, and be stopped, in all: it is paid for until then.
    late_seconds: float = 0.0

    def funded_seconds(self, run_seconds: float) -> float:
        """How much of the remaining time a hold covers."""
        return min(run_seconds, 2 * self.slice_seconds + self.checkpoint_seconds)


DEFAULT_TIMES: Final = SettleTimes()


class LedgerSide(Struct, frozen=True):
    """One side of a transfer; the sides sum to zero. Without an account it is the platform's."""

    account_id: AccountId | None
    kind: EntryKind
    purse: Purse
    amount_micro: int


class Billable(Struct, frozen=True):
    """The facts that decide what an attempt costs."""

    consumer_id: AccountId
    provider_id: AccountId
    price_micro_per_hour: int
    hold_micro: int  # held now
    run_seconds_limit: float
    started_at: datetime | None
    reported_run_seconds: float | None  # by the provider, if it reported one
    items_seconds: float = 0.0  # of an array: the time of its accepted items
    charged_micro: int = 0  # in slices, and before it was lost and adopted again
    held_back_micro: int = 0  # of that, the part that the provider has not been paid
    checkpoint_at: datetime | None = None  # when the last one was acknowledged
    slices: int = 0  # charged in this life
    fee_basis_points: int = 0
    is_standing: bool = False  # of a call stream: only the time of its items costs anything


class Settlement(Struct, frozen=True):
    """What the end of an attempt moves besides the refund of its hold."""

    charge_micro: int = 0  # from the hold to the provider
    release_micro: int = 0  # of what was held back: to the provider
    reversal_micro: int = 0  # of what was held back: to the consumer
    shortfall_micro: int = 0  # what the hold did not cover
    kept_micro: int = 0  # from the hold, and held back
    forfeit_micro: int = 0  # of what was held back: to the operator

    @property
    def cost_micro(self) -> int:
        """By how much the consumer pays more than before."""
        return self.charge_micro + self.kept_micro - self.reversal_micro

    @property
    def resolved_micro(self) -> int:
        """By how much less is held back than before."""
        return self.release_micro + self.reversal_micro + self.forfeit_micro - self.kept_micro


class SliceCharge(Struct, frozen=True):
    """What the end of a slice moves."""

    charge_micro: int
    release_micro: int  # of what was held back: secured meanwhile
    top_up_micro: int
    is_funded: bool  # False if the credit is only enough for a last checkpoint
    next_seconds: float  # until the next slice ends, or the time for that checkpoint


def hold_micro(price_micro_per_hour: int, run_seconds: float) -> int:
    """The hold for a time: its price, rounded up."""
    microseconds = round(run_seconds * 1_000_000)
    return -(-price_micro_per_hour * microseconds // _MICROSECONDS_PER_HOUR)


def cost_micro(work: Billable, finished_at: datetime) -> int:
    """The price of the time the server measured, at most the time the provider reported."""
    if work.started_at is None:
        return 0
    seconds = max(0.0, (finished_at - work.started_at) / timedelta(seconds=1))
    seconds = min(seconds, work.run_seconds_limit)
    if work.reported_run_seconds is not None:
        seconds = min(seconds, work.reported_run_seconds)
    if work.is_standing:
        seconds = min(seconds, work.items_seconds)
    return _price_micro(work, seconds)


def secured_micro(work: Billable, now: datetime) -> int:
    """How much an attempt costs that is lost: its accepted items, and what was charged for the time
    up to its last checkpoint.
    """
    items = cost_micro(replace(work, reported_run_seconds=work.items_seconds), now)
    if work.checkpoint_at is None:
        return items
    return max(items, min(cost_micro(work, work.checkpoint_at), work.charged_micro))


def settle(work: Billable, cost: int) -> Settlement:
    """What remains to be moved so that an attempt costs this much."""
    if cost >= work.charged_micro:
        due = cost - work.charged_micro
        charge = min(due, work.hold_micro)
        return Settlement(charge, work.held_back_micro, shortfall_micro=due - charge)
    reversal = min(work.charged_micro - cost, work.held_back_micro)
    return Settlement(0, work.held_back_micro - reversal, reversal)


def keep_back(settlement: Settlement) -> Settlement:
    """The consumer pays the same; the provider's reward is held back until it is judged."""
    return replace(settlement, charge_micro=0, release_micro=0, kept_micro=settlement.charge_micro)


def judge(work: Billable, believed_seconds: float) -> Settlement:
    """Of a reward that was kept back: pays what is believed or secured, and forfeits the rest.

    The consumer gets nothing back: its code decides how an attempt ends, and may fail on purpose.
    """
    assert work.started_at is not None, "what did not start has no reward"
    believed = work.started_at + timedelta(seconds=believed_seconds)
    earned = max(cost_micro(work, believed), secured_micro(work, believed))
    paid = work.charged_micro - work.held_back_micro
    release = min(max(0, earned - paid), work.held_back_micro)
    return Settlement(release_micro=release, forfeit_micro=work.held_back_micro - release)


def charge_slice(
    work: Billable, now: datetime, available_micro: int, times: SettleTimes
) -> SliceCharge:
    """Charges the time until now, and holds again for the time ahead, as far as the credit goes."""
    assert work.started_at is not None, "only what runs is charged in slices"
    due = max(0, cost_micro(work, now) - work.charged_micro)
    ran_seconds = (now - work.started_at) / timedelta(seconds=1)
    left_seconds = max(0.0, work.run_seconds_limit - ran_seconds)
    ahead = hold_micro(work.price_micro_per_hour, times.funded_seconds(left_seconds))
    top_up = min(max(0, due + ahead - work.hold_micro), max(0, available_micro))
    charge = min(due, work.hold_micro + top_up)
    charged = replace(work, charged_micro=work.charged_micro + charge)
    released = work.charged_micro - work.held_back_micro
    kept_seconds = _funded_seconds(work, work.hold_micro + top_up - charge)
    # At most half a slice, so that full holds are enough whatever the times are.
    reserved_seconds = times.checkpoint_seconds + min(times.late_seconds, times.slice_seconds / 2)
    runs_on = min(kept_seconds - reserved_seconds, times.slice_seconds)
    if kept_seconds >= left_seconds:
        runs_on = times.slice_seconds
    is_funded = runs_on >= _SHORTEST_SLICE * times.slice_seconds
    return SliceCharge(
        charge,
        release_micro=max(0, min(secured_micro(charged, now) - released, work.held_back_micro)),
        top_up_micro=top_up,
        is_funded=is_funded,
        next_seconds=runs_on if is_funded else times.checkpoint_seconds,
    )


def hold_entries(consumer_id: AccountId, amount_micro: int) -> tuple[LedgerSide, ...]:
    return _moved(consumer_id, EntryKind.HOLD, amount_micro, Purse.AVAILABLE, Purse.HELD)


def settle_entries(work: Billable, settlement: Settlement) -> tuple[LedgerSide, ...]:
    """Pays the provider, and returns the rest to the consumer."""
    charge, kept = settlement.charge_micro, settlement.kept_micro
    assert 0 <= charge + kept <= work.hold_micro and min(charge, kept) == 0
    purse = Purse.HELD_BACK if kept else Purse.AVAILABLE
    paid = (
        LedgerSide(work.consumer_id, EntryKind.CHARGE, Purse.HELD, -charge - kept),
        LedgerSide(work.provider_id, EntryKind.REWARD, purse, charge + kept),
    )
    return (
        *(paid if charge or kept else ()),
        *_moved(
            work.consumer_id,
            EntryKind.REFUND,
            work.hold_micro - charge - kept,
            Purse.HELD,
            Purse.AVAILABLE,
        ),
        *held_back_entries(work, settlement),
    )


def held_back_entries(work: Billable, settlement: Settlement) -> tuple[LedgerSide, ...]:
    """Pays rewards that were held back, returns or forfeits them, and takes the fee."""
    reversal, forfeit = settlement.reversal_micro, settlement.forfeit_micro
    forfeited = (
        LedgerSide(work.provider_id, EntryKind.REVERSAL, Purse.HELD_BACK, -forfeit),
        LedgerSide(None, EntryKind.REVERSAL, Purse.FEES, forfeit),
    )
    reversed_ = (
        LedgerSide(work.provider_id, EntryKind.REVERSAL, Purse.HELD_BACK, -reversal),
        LedgerSide(work.consumer_id, EntryKind.REVERSAL, Purse.AVAILABLE, reversal),
    )
    released = settlement.release_micro
    return (
        *_moved(work.provider_id, EntryKind.RELEASE, released, Purse.HELD_BACK, Purse.AVAILABLE),
        *(reversed_ if reversal else ()),
        *(forfeited if forfeit else ()),
        *_fee_entries(work, settlement.charge_micro + released),
    )


def shortfall_entries(work: Billable, amount_micro: int) -> tuple[LedgerSide, ...]:
    """Charges what the hold did not cover: no slice was charged for long, as in an outage."""
    return (
        LedgerSide(work.consumer_id, EntryKind.CHARGE, Purse.AVAILABLE, -amount_micro),
        LedgerSide(work.provider_id, EntryKind.REWARD, Purse.AVAILABLE, amount_micro),
        *_fee_entries(work, amount_micro),
    )


def slice_entries(work: Billable, due: SliceCharge) -> tuple[LedgerSide, ...]:
    """Charges a slice, holds its reward back, pays what is secured, and holds for the next ones."""
    charged = (
        LedgerSide(work.consumer_id, EntryKind.CHARGE, Purse.HELD, -due.charge_micro),
        LedgerSide(work.provider_id, EntryKind.REWARD, Purse.HELD_BACK, due.charge_micro),
    )
    return (
        *(charged if due.charge_micro else ()),
        *hold_entries(work.consumer_id, due.top_up_micro),
        *held_back_entries(work, Settlement(0, due.release_micro)),
    )


def grant_entries(account_id: AccountId, amount_micro: int) -> tuple[LedgerSide, ...]:
    return (
        LedgerSide(None, EntryKind.GRANT, Purse.ISSUED, -amount_micro),
        LedgerSide(account_id, EntryKind.GRANT, Purse.AVAILABLE, amount_micro),
    )


def _fee_entries(work: Billable, reward_micro: int) -> tuple[LedgerSide, ...]:
    fee = reward_micro * work.fee_basis_points // BASIS_POINTS
    if fee == 0:
        return ()
    return (
        LedgerSide(work.provider_id, EntryKind.FEE, Purse.AVAILABLE, -fee),
        LedgerSide(None, EntryKind.FEE, Purse.FEES, fee),
    )


def _funded_seconds(work: Billable, amount_micro: int) -> float:
    price = work.price_micro_per_hour
    return amount_micro * _MICROSECONDS_PER_HOUR / price / 1_000_000 if price else inf


def _price_micro(work: Billable, seconds: float) -> int:
    return work.price_micro_per_hour * round(seconds * 1_000_000) // _MICROSECONDS_PER_HOUR


def _moved(
    account_id: AccountId, kind: EntryKind, amount_micro: int, source: Purse, target: Purse
) -> tuple[LedgerSide, ...]:
    if amount_micro == 0:
        return ()
    return (
        LedgerSide(account_id, kind, source, -amount_micro),
        LedgerSide(account_id, kind, target, amount_micro),
    )
