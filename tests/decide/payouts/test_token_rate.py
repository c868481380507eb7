"""Credits become tokens and tokens credits, exactly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potluck.decide.payouts.token_rate import TokenRate, make_rate


@pytest.mark.parametrize(
    ("decimals", "credits_per_token", "rate"),
    [
        (6, 1, TokenRate(1, 1)),
        (18, 1, TokenRate(10**12, 1)),
        (6, 100, TokenRate(1, 100)),
        (18, 1000, TokenRate(10**9, 1)),
        (0, 1, TokenRate(1, 10**6)),
        (18, 3, None),
        (6, 7, TokenRate(1, 7)),
    ],
)
def test_a_rate_has_whole_numbers_or_is_none(
    decimals: int, credits_per_token: int, rate: TokenRate | None
) -> None:
    assert make_rate(decimals, credits_per_token) == rate


@given(
    st.sampled_from([TokenRate(1, 1), TokenRate(10**12, 1), TokenRate(1, 100)]),
    st.lists(st.integers(0, 10**15), max_size=20),
)
def test_payments_never_exceed_the_earned_amount(rate: TokenRate, earned: list[int]) -> None:
    """Cumulative amounts: the rest of one epoch is paid in a later one."""
    total, paid_units = 0, 0
    for micro in earned:
        total += micro
        assert rate.to_units(total) >= paid_units
        paid_units = rate.to_units(total)
    assert total - rate.micro < rate.to_micro(paid_units) <= total
    assert rate.to_units(rate.to_micro(paid_units)) == paid_units
