"""Payouts through a contract: roots of rewards, and the transactions that carry them."""

from enum import StrEnum


class RootState(StrEnum):
    """Where the root of an epoch's rewards stands."""

    PLANNED = "planned"  # made from the ledger, and not known to be in the contract
    PROPOSED = "proposed"  # pending in the contract, until its delay has passed
    ACCEPTED = "accepted"  # the contract pays by it, or by a later one
    REVOKED = "revoked"  # the contract's owner removed it; an admin decides what follows


class TransactionKind(StrEnum):
    """What a transaction of the treasury does."""

    PROPOSE = "propose"  # proposes the root of the next epoch
    ACCEPT = "accept"  # makes the pending root the current one, after its delay


class TransactionState(StrEnum):
    """Where a transaction of the treasury stands."""

    INTENDED = "intended"  # decided, with its nonce; nothing is signed
    SIGNED = "signed"  # its bytes are stored; no node of the chain may have seen them
    BROADCAST = "broadcast"  # the chain was given it
    CONFIRMED = "confirmed"  # it succeeded, and is deep enough in the chain
    FAILED = "failed"  # it is deep enough in the chain, and the contract refused it
    SUPERSEDED = "superseded"  # another transaction with its nonce is deep enough in the chain
