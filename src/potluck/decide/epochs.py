"""Epochs: when they end, and how much of an account's rewards is set aside for a payout."""

from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

from potluck.decide.charges import LedgerSide
from potluck.model.credit import EntryKind, Purse, RewardsTo
from potluck.model.ids import AccountId

_ORIGIN: Final = datetime(1970, 1, 1, tzinfo=UTC)
# As a part of a whole one; after a late closing the next epoch ends a whole one later instead.
_SHORTEST_EPOCH = 0.5


class UncountedRewards(Struct, frozen=True):
    """An account when an epoch is closed, with what no closed epoch has counted."""

    account_id: AccountId
    rewards_to: RewardsTo
    available_micro: int
    held_micro: int
    held_back_micro: int
    earned_micro: int
    fee_micro: int
    carried_micro: int  # could not be set aside in the last epoch, because it was held
    set_aside_micro: int  # in all epochs so far


class EpochReward(Struct, frozen=True):
    """An account's part of an epoch."""

    account_id: AccountId
    earned_micro: int
    fee_micro: int
    held_back_micro: int
    rewards_to: RewardsTo
    amount_micro: int  # set aside for a payout
    cumulative_micro: int  # in all epochs, with this one
    carried_micro: int = 0  # to the next epoch


def next_end(now: datetime, epoch_seconds: float) -> datetime:
    """The next multiple of the length since 1970, so that days end at midnight UTC."""
    length = timedelta(seconds=epoch_seconds)
    end = _ORIGIN + ((now - _ORIGIN) // length + 1) * length
    return end if end - now >= _SHORTEST_EPOCH * length else end + length


def close_account(account: UncountedRewards) -> EpochReward:
    """Sets aside the net reward, at most what is available: the account may have spent it.

    What is held for its running tasks may come back, and is carried to the next epoch.
    """
    is_payout = account.rewards_to is RewardsTo.PAYOUT
    net = account.earned_micro - account.fee_micro
    due = net + account.carried_micro if is_payout else 0
    amount = min(due, account.available_micro)
    return EpochReward(
        account.account_id,
        account.earned_micro,
        account.fee_micro,
        account.held_back_micro,
        account.rewards_to,
        amount,
        account.set_aside_micro + amount,
        carried_micro=min(due - amount, account.held_micro),
    )


def epoch_entries(reward: EpochReward) -> tuple[LedgerSide, ...]:
    if reward.amount_micro == 0:
        return ()
    return (
        LedgerSide(reward.account_id, EntryKind.EPOCH, Purse.AVAILABLE, -reward.amount_micro),
        LedgerSide(reward.account_id, EntryKind.EPOCH, Purse.CLAIMABLE, reward.amount_micro),
    )


def payout_entries(account_id: AccountId, amount_micro: int) -> tuple[LedgerSide, ...]:
    return (
        LedgerSide(account_id, EntryKind.PAYOUT, Purse.CLAIMABLE, -amount_micro),
        LedgerSide(None, EntryKind.PAYOUT, Purse.PAID, amount_micro),
    )
