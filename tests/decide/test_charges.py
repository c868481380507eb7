"""Money: balanced, bounded, never more than was held."""

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from potluck.decide.charges import (
    Billable,
    Settlement,
    SettleTimes,
    SliceCharge,
    charge_slice,
    cost_micro,
    grant_entries,
    held_back_entries,
    hold_entries,
    hold_micro,
    secured_micro,
    settle,
    settle_entries,
    shortfall_entries,
    slice_entries,
)
from tests.decide.builders import ALICE, BOB, NOW


def billable(**changes: object) -> Billable:
    values: dict[str, object] = {
        "consumer_id": ALICE,
        "provider_id": BOB,
        "price_micro_per_hour": 3_600_000,
        "hold_micro": hold_micro(3_600_000, 100.0),
        "run_seconds_limit": 100.0,
        "started_at": NOW,
        "reported_run_seconds": None,
        **changes,
    }
    return Billable(**values)  # type: ignore[arg-type]


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def test_a_second_costs_a_3600th_of_an_hour() -> None:
    assert cost_micro(billable(), after(10)) == 10_000


def test_an_attempt_that_never_started_is_free() -> None:
    assert cost_micro(billable(started_at=None), NOW) == 0


def test_at_most_the_providers_own_figure_and_the_limit() -> None:
    assert cost_micro(billable(reported_run_seconds=7.0), after(1000)) == 7_000
    assert cost_micro(billable(), after(1000)) == 100_000


def test_time_charged_before_an_adoption_is_not_charged_again() -> None:
    assert settle(billable(charged_micro=20_000), 50_000) == Settlement(30_000)
    assert settle(billable(charged_micro=60_000), 50_000) == Settlement(0)


def test_a_clock_that_jumps_back_costs_nothing() -> None:
    assert cost_micro(billable(), after(-5)) == 0


def test_an_end_pays_held_back_credit_and_the_rest_of_the_time() -> None:
    work = billable(charged_micro=60_000, held_back_micro=40_000)
    assert settle(work, 75_000) == Settlement(15_000, release_micro=40_000)


def test_a_lower_cost_is_refunded_from_held_back_credit_only() -> None:
    work = billable(charged_micro=60_000, held_back_micro=40_000)
    assert settle(work, 50_000) == Settlement(0, release_micro=30_000, reversal_micro=10_000)
    assert settle(work, 0) == Settlement(0, release_micro=0, reversal_micro=40_000)


def test_lost_work_costs_what_a_checkpoint_secured_and_was_charged() -> None:
    work = billable(charged_micro=60_000, held_back_micro=60_000)
    assert secured_micro(work, after(70)) == 0
    assert secured_micro(replace(work, checkpoint_at=after(50)), after(70)) == 50_000
    assert secured_micro(replace(work, checkpoint_at=after(65)), after(70)) == 60_000
    assert secured_micro(replace(work, items_seconds=64.0), after(70)) == 64_000


def test_a_hold_covers_two_slices_and_a_checkpoint_or_the_whole_time() -> None:
    times = SettleTimes(slice_seconds=10, checkpoint_seconds=4)
    assert times.funded_seconds(100) == 24
    assert times.funded_seconds(15) == 15


TIMES = SettleTimes(slice_seconds=10, checkpoint_seconds=4)


def test_a_slice_is_charged_and_the_time_ahead_is_held_for() -> None:
    due = charge_slice(billable(hold_micro=24_000), after(10), 10**9, TIMES)
    assert due == SliceCharge(10_000, 0, 10_000, is_funded=True, next_seconds=10)


def test_near_the_limit_only_the_rest_is_held_for() -> None:
    work = billable(hold_micro=24_000, charged_micro=80_000, held_back_micro=80_000)
    due = charge_slice(work, after(90), 10**9, TIMES)
    assert due == SliceCharge(10_000, 0, 0, is_funded=True, next_seconds=10)


def test_without_credit_the_next_slice_still_runs_and_the_one_after_it_does_not() -> None:
    first = charge_slice(billable(hold_micro=24_000), after(10), 0, TIMES)
    assert first == SliceCharge(10_000, 0, 0, is_funded=True, next_seconds=10)
    work = billable(hold_micro=14_000, charged_micro=10_000, held_back_micro=10_000)
    last = charge_slice(work, after(20), 0, TIMES)
    assert last == SliceCharge(10_000, 0, 0, is_funded=False, next_seconds=4)


def test_a_slice_that_was_charged_late_leaves_a_shorter_one() -> None:
    due = charge_slice(billable(hold_micro=24_000), after(13), 0, TIMES)
    assert due == SliceCharge(13_000, 0, 0, is_funded=True, next_seconds=7)


def test_an_attempt_without_credit_is_paid_although_it_is_stopped_late() -> None:
    """Asked to stop as late as the leader may look, and stopped as late again."""
    times = replace(TIMES, late_seconds=2.0)
    work = billable(hold_micro=14_000, charged_micro=10_000, held_back_micro=10_000)
    first = charge_slice(work, after(10), 0, times)
    assert first == SliceCharge(0, 0, 0, is_funded=True, next_seconds=8)
    asked_at = after(10 + first.next_seconds + times.late_seconds / 2)
    last = charge_slice(work, asked_at, 0, times)
    assert not last.is_funded
    stopped = asked_at + timedelta(seconds=last.next_seconds + times.late_seconds / 2)
    paid = replace(
        work, charged_micro=10_000 + last.charge_micro, hold_micro=14_000 - last.charge_micro
    )
    assert settle(paid, cost_micro(paid, stopped)).shortfall_micro == 0


def test_full_holds_are_enough_although_the_leader_looks_seldom() -> None:
    due = charge_slice(
        billable(hold_micro=24_000), after(10), 10**9, replace(TIMES, late_seconds=99)
    )
    assert due.is_funded and due.next_seconds == 10


def test_a_late_slice_is_charged_from_the_credit_as_far_as_it_goes() -> None:
    work = billable(hold_micro=24_000)
    assert charge_slice(work, after(60), 10**9, TIMES).charge_micro == 60_000
    poor = charge_slice(work, after(60), 1_000, TIMES)
    assert poor == SliceCharge(25_000, 0, 1_000, is_funded=False, next_seconds=4)


def test_a_checkpoint_releases_credit_that_was_held_back_before_it() -> None:
    work = billable(
        hold_micro=24_000, charged_micro=30_000, held_back_micro=20_000, checkpoint_at=after(25)
    )
    assert charge_slice(work, after(40), 10**9, TIMES).release_micro == 15_000


@given(
    price=st.integers(0, 10**12),
    limit=st.floats(0.001, 10**6),
    run_seconds=st.floats(0, 10**6),
    reported=st.none() | st.floats(0, 10**6),
    charged=st.integers(0, 10**12),
    held_back_percent=st.integers(0, 100),
    fee=st.integers(0, 10_000),
    available=st.integers(0, 10**15),
)
def test_every_transfer_balances_and_nothing_exceeds_its_source(
    price: int,
    limit: float,
    run_seconds: float,
    reported: float | None,
    charged: int,
    held_back_percent: int,
    fee: int,
    available: int,
) -> None:
    work = billable(
        price_micro_per_hour=price,
        hold_micro=hold_micro(price, limit),
        run_seconds_limit=limit,
        reported_run_seconds=reported,
        charged_micro=charged,
        held_back_micro=charged * held_back_percent // 100,
        fee_basis_points=fee,
    )
    settlement = settle(work, cost_micro(work, after(run_seconds)))
    due = charge_slice(work, after(run_seconds), available, TIMES)
    assert 0 <= settlement.charge_micro <= work.hold_micro
    assert settlement.resolved_micro == work.held_back_micro
    assert min(settlement.release_micro, settlement.reversal_micro) >= 0
    assert 0 <= due.charge_micro <= work.hold_micro + due.top_up_micro
    assert 0 <= due.top_up_micro <= available
    assert 0 <= due.release_micro <= work.held_back_micro
    for entries in (
        hold_entries(ALICE, work.hold_micro),
        settle_entries(work, settlement),
        held_back_entries(work, settlement),
        slice_entries(work, due),
        shortfall_entries(work, 5),
        grant_entries(ALICE, 5),
    ):
        assert sum(entry.amount_micro for entry in entries) == 0
        assert all(entry.amount_micro for entry in entries)
        keys = [(entry.account_id, entry.kind, entry.purse) for entry in entries]
        assert len(keys) == len(set(keys)), "each is unique within its slice"
