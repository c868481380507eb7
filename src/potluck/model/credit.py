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


class Purse(StrEnum):
    """The two parts of an account's balance, and the platform's counterpart."""

    AVAILABLE = "available"  # can be spent
    HELD = "held"  # reserved for live attempts
    ISSUED = "issued"  # the platform's counterpart of all grants; negative
