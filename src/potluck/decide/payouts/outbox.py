"""The next step of a transaction of the treasury: intent, signed, broadcast, confirmed.

A transaction keeps its nonce for ever, so at most one version of it can be in the chain. One that
is not taken into a block is signed again with the same nonce and a higher fee.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from msgspec import Struct

from potluck.model.payout import TransactionState

TRANSACTION_TRANSITIONS: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.INTENDED: frozenset({TransactionState.SIGNED, TransactionState.SUPERSEDED}),
    TransactionState.SIGNED: frozenset(
        {
            TransactionState.BROADCAST,
            TransactionState.CONFIRMED,
            TransactionState.FAILED,
            TransactionState.SUPERSEDED,
        }
    ),
    TransactionState.BROADCAST: frozenset(
        {
            TransactionState.SIGNED,  # again, with a higher fee
            TransactionState.CONFIRMED,
            TransactionState.FAILED,
            TransactionState.SUPERSEDED,
        }
    ),
    TransactionState.CONFIRMED: frozenset(),
    TransactionState.FAILED: frozenset(),
    TransactionState.SUPERSEDED: frozenset(),
}
OPEN_STATES: Final = tuple(state for state, after in TRANSACTION_TRANSITIONS.items() if after)
# Nodes take a replacement only if it pays at least a tenth more.
_RAISE_PERCENT: Final = 25


class GasFee(Struct, frozen=True):
    """In wei for each unit of gas."""

    most: int
    tip: int


class TransactionVersion(Struct, frozen=True):
    """A signature of a transaction; later ones pay more."""

    hash: bytes
    raw: bytes
    fee: GasFee
    signed_at: datetime
    broadcast_at: datetime | None = None


class OpenTransaction(Struct, frozen=True):
    state: TransactionState
    nonce: int
    versions: tuple[TransactionVersion, ...]  # the oldest first


class Inclusion(Struct, frozen=True):
    """That a version is in a block, and whether it succeeded there."""

    block: int
    has_succeeded: bool


class ChainSight(Struct, frozen=True):
    """What the chain says about the transaction now."""

    safe_block: int  # the last block with enough confirmations
    safe_nonce: int  # the transactions of the signer up to there
    inclusions: Mapping[bytes, Inclusion]  # by the hash of a version
    fee: GasFee  # that a new transaction would offer


class SignVersion(Struct, frozen=True):
    fee: GasFee


class SendVersion(Struct, frozen=True):
    version: TransactionVersion


class SettleTransaction(Struct, frozen=True):
    state: TransactionState
    hash: bytes | None = None  # of the version that is in the chain
    block: int | None = None


class WaitForBlock(Struct, frozen=True):
    pass


OutboxStep: TypeAlias = SignVersion | SendVersion | SettleTransaction | WaitForBlock


class OutboxTimes(Struct, frozen=True):
    resend: timedelta  # an endpoint may have forgotten it
    stuck: timedelta  # without a block for this long, it is replaced


def next_step(
    transaction: OpenTransaction, sight: ChainSight, times: OutboxTimes, now: datetime
) -> OutboxStep:
    included = [
        (version, sight.inclusions[version.hash])
        for version in transaction.versions
        if version.hash in sight.inclusions
    ]
    for version, inclusion in included:
        if inclusion.block <= sight.safe_block:
            state = TransactionState.CONFIRMED if inclusion.has_succeeded else _FAILED
            return SettleTransaction(state, version.hash, inclusion.block)
    if included:
        return WaitForBlock()
    if sight.safe_nonce > transaction.nonce:
        return SettleTransaction(TransactionState.SUPERSEDED)
    if not transaction.versions:
        return SignVersion(sight.fee)
    latest = transaction.versions[-1]
    if now - latest.signed_at >= times.stuck:
        return SignVersion(_raise(latest.fee, sight.fee))
    if latest.broadcast_at is None:
        return SendVersion(latest)
    is_due = now - latest.broadcast_at >= times.resend
    return SendVersion(latest) if is_due else WaitForBlock()


_FAILED: Final = TransactionState.FAILED


def _raise(paid: GasFee, asked: GasFee) -> GasFee:
    return GasFee(max(_more(paid.most), asked.most), max(_more(paid.tip), asked.tip))


def _more(wei: int) -> int:
    return wei + wei * _RAISE_PERCENT // 100 + 1
