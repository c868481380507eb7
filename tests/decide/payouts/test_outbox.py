"""A transaction of the treasury: one nonce, and at most one version of it in the chain."""

from datetime import UTC, datetime, timedelta

import pytest

from potluck.decide.payouts.outbox import (
    TRANSACTION_TRANSITIONS,
    ChainSight,
    GasFee,
    Inclusion,
    OpenTransaction,
    OutboxStep,
    OutboxTimes,
    SendVersion,
    SettleTransaction,
    SignVersion,
    TransactionVersion,
    WaitForBlock,
    next_step,
)
from potluck.model.payout import TransactionState

NOW = datetime(2026, 11, 18, tzinfo=UTC)
TIMES = OutboxTimes(resend=timedelta(seconds=60), stuck=timedelta(seconds=600))
ASKED = GasFee(100, 10)
FIRST = TransactionVersion(b"1", b"raw 1", GasFee(100, 10), NOW, NOW)
SECOND = TransactionVersion(b"2", b"raw 2", GasFee(126, 13), NOW, NOW)


def step(
    *versions: TransactionVersion,
    state: TransactionState = TransactionState.BROADCAST,
    after_seconds: float = 1,
    safe_nonce: int = 7,
    fee: GasFee = ASKED,
    **included: Inclusion,
) -> OutboxStep:
    inclusions = {
        name.removeprefix("v").encode(): inclusion for name, inclusion in included.items()
    }
    sight = ChainSight(100, safe_nonce, inclusions, fee)
    transaction = OpenTransaction(state, 7, versions)
    return next_step(transaction, sight, TIMES, NOW + timedelta(seconds=after_seconds))


def test_an_intent_is_signed_and_sent() -> None:
    assert step(state=TransactionState.INTENDED) == SignVersion(ASKED)
    unsent = TransactionVersion(b"1", b"raw 1", ASKED, NOW)
    assert step(unsent, state=TransactionState.SIGNED) == SendVersion(unsent)


def test_a_sent_transaction_is_sent_again_periodically() -> None:
    assert step(FIRST) == WaitForBlock()
    assert step(FIRST, after_seconds=60) == SendVersion(FIRST)


def test_a_stuck_transaction_is_replaced_with_a_higher_fee() -> None:
    assert step(FIRST, after_seconds=600) == SignVersion(GasFee(126, 13))
    assert step(FIRST, after_seconds=600, fee=GasFee(900, 1)) == SignVersion(GasFee(900, 13))


@pytest.mark.parametrize("depth_ok", [True, False])
def test_any_version_counts_once_it_is_deep_enough(depth_ok: bool) -> None:
    block = 100 if depth_ok else 101
    expected: OutboxStep = WaitForBlock()
    if depth_ok:
        expected = SettleTransaction(TransactionState.CONFIRMED, b"1", block)
    # Also after the second was signed, and while it would be due to be replaced.
    inclusion = Inclusion(block, has_succeeded=True)
    assert step(FIRST, SECOND, after_seconds=9999, v1=inclusion) == expected


def test_a_crash_after_the_broadcast_is_no_second_broadcast_once_it_is_mined() -> None:
    unsent = TransactionVersion(b"1", b"raw 1", ASKED, NOW)
    inclusion = Inclusion(99, has_succeeded=True)
    assert step(unsent, state=TransactionState.SIGNED, v1=inclusion) == SettleTransaction(
        TransactionState.CONFIRMED, b"1", 99
    )


def test_a_reverted_transaction_has_failed() -> None:
    inclusion = Inclusion(99, has_succeeded=False)
    assert step(FIRST, v1=inclusion) == SettleTransaction(TransactionState.FAILED, b"1", 99)


def test_a_nonce_that_somebody_else_used_ends_it() -> None:
    superseded = SettleTransaction(TransactionState.SUPERSEDED)
    assert step(FIRST, safe_nonce=8) == superseded
    assert step(state=TransactionState.INTENDED, safe_nonce=8) == superseded


def test_a_settled_transaction_never_moves_again() -> None:
    final = {state for state, after in TRANSACTION_TRANSITIONS.items() if not after}
    assert final == {
        TransactionState.CONFIRMED,
        TransactionState.FAILED,
        TransactionState.SUPERSEDED,
    }
    assert set(TRANSACTION_TRANSITIONS) == set(TransactionState)
