"""Money, in integer micro-credits. A million of them are one credit."""

from enum import StrEnum

MICRO = 1_000_000


class EntryKind(StrEnum):
    """What a movement in the ledger means."""

    GRANT = "grant"  # an operator gave credit
    HOLD = "hold"  # credit set aside for one attempt
    CHARGE = "charge"  # the consumer's side of work that was done
    REWARD = "reward"  # the provider's side of the same work
    REFUND = "refund"  # the part of a hold that was not needed


class Purse(StrEnum):
    """The two sides of an account's balance, and the one side of the platform's."""

    AVAILABLE = "available"  # may be spent
    HELD = "held"  # set aside for live attempts
    ISSUED = "issued"  # the platform's counterpart of every grant; negative by nature
