"""Credits, counted in integer micro-credits. A million micro-credits are one credit."""

from enum import StrEnum

MICRO = 1_000_000


class EntryKind(StrEnum):
    """The kind of a ledger entry."""

    GRANT = "grant"  # an admin granted credit, or took it back (negative)
    HOLD = "hold"  # credit reserved for one attempt
    CHARGE = "charge"  # the consumer's payment for finished work
    REWARD = "reward"  # the provider's payment for the same work
    REFUND = "refund"  # the unused part of a hold
    RELEASE = "release"  # a reward that was held back is paid
    REVERSAL = "reversal"  # a charge whose reward was held back goes back to the consumer
    FEE = "fee"  # the operator's part of a reward
    EPOCH = "epoch"  # rewards of a closed epoch, set aside for a payout
    PAYOUT = "payout"  # a reward that was paid outside the pool
    DEPOSIT = "deposit"  # tokens that were deposited in the contract


class Purse(StrEnum):
    """The parts of an account's balance, and the platform's own."""

    AVAILABLE = "available"  # can be spent
    HELD = "held"  # reserved for live attempts
    HELD_BACK = "held_back"  # earned by attempts that still run, and not secured
    CLAIMABLE = "claimable"  # set aside for a payout
    ISSUED = "issued"  # the platform's counterpart of all grants; negative
    FEES = "fees"  # the fees of the platform's operator
    PAID = "paid"  # the platform's counterpart of all payouts
    DEPOSITED = "deposited"  # the platform's counterpart of all deposits; negative


class RewardsTo(StrEnum):
    """What happens to the rewards of an account."""

    CREDITS = "credits"  # they stay its credits, and can be spent in the pool
    PAYOUT = "payout"  # they are set aside when an epoch is closed, and paid outside the pool
