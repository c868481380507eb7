"""Money: balanced, bounded, never more than was held."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from potluck.decide.charges import (
    Billable,
    charge_micro,
    grant_entries,
    hold_entries,
    hold_micro,
    settle_entries,
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


def test_a_second_costs_a_3600th_of_an_hour() -> None:
    assert charge_micro(billable(), NOW + timedelta(seconds=10)) == 10_000


def test_what_never_started_is_free() -> None:
    assert charge_micro(billable(started_at=None), NOW) == 0


def test_at_most_the_providers_own_figure_and_the_limit() -> None:
    later = NOW + timedelta(seconds=1000)
    assert charge_micro(billable(reported_run_seconds=7.0), later) == 7_000
    assert charge_micro(billable(), later) == 100_000


def test_what_was_charged_in_an_earlier_life_is_not_charged_again() -> None:
    later = NOW + timedelta(seconds=50)
    assert charge_micro(billable(charged_micro=20_000), later) == 30_000
    assert charge_micro(billable(charged_micro=60_000), later) == 0


def test_a_clock_that_jumps_back_costs_nothing() -> None:
    assert charge_micro(billable(), NOW - timedelta(seconds=5)) == 0


@given(
    price=st.integers(0, 10**12),
    limit=st.floats(0.001, 10**6),
    ran=st.floats(0, 10**6),
    reported=st.none() | st.floats(0, 10**6),
)
def test_every_transfer_balances_and_the_hold_is_enough(
    price: int, limit: float, ran: float, reported: float | None
) -> None:
    work = billable(
        price_micro_per_hour=price,
        hold_micro=hold_micro(price, limit),
        run_seconds_limit=limit,
        reported_run_seconds=reported,
    )
    charge = charge_micro(work, NOW + timedelta(seconds=ran))
    assert 0 <= charge <= work.hold_micro
    for entries in (
        hold_entries(ALICE, work.hold_micro),
        settle_entries(work, charge),
        grant_entries(ALICE, 5),
    ):
        assert sum(entry.amount_micro for entry in entries) == 0
        assert all(entry.amount_micro for entry in entries)
