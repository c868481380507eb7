"""When calls wait for the results of those under way: times are given."""

import pytest

from potluck.consumer.functions.call_stream import Turnaround


@pytest.fixture
def quick() -> Turnaround:
    """Calls took 8 ms, their requests 2 ms, and ten more were sent at 100 s."""
    turnaround = Turnaround()
    turnaround.sent(3, 4, 50.0)
    turnaround.acknowledged(0.002)
    turnaround.ended(range(4), 50.008)
    turnaround.sent(13, 10, 100.0)
    return turnaround


def test_fewer_calls_than_are_under_way_wait_at_most_twice_as_long_as_calls_took(
    quick: Turnaround,
) -> None:
    assert quick.hold_until(9) == pytest.approx(100.016)
    assert quick.hold_until(10) is None


def test_nothing_waits_once_the_last_request_has_its_results(quick: Turnaround) -> None:
    quick.ended(range(4, 13), 100.001)
    assert quick.hold_until(1) is not None
    quick.ended([13], 100.002)
    assert quick.hold_until(1) is None


def test_nothing_waits_for_calls_that_were_withdrawn(quick: Turnaround) -> None:
    quick.forget(range(4, 14))
    assert quick.hold_until(1) is None


def test_nothing_waits_before_a_call_was_measured() -> None:
    turnaround = Turnaround()
    turnaround.sent(9, 10, 100.0)
    assert turnaround.hold_until(1) is None


def test_nothing_waits_for_calls_that_take_much_longer_than_their_requests() -> None:
    turnaround = Turnaround()
    turnaround.sent(0, 1, 50.0)
    turnaround.acknowledged(0.002)
    turnaround.ended([0], 50.011)
    turnaround.sent(9, 9, 100.0)
    assert turnaround.hold_until(1) is None


def test_after_waiting_in_vain_nothing_waits_until_results_have_come(quick: Turnaround) -> None:
    quick.gave_up()
    assert quick.hold_until(1) is None
    quick.sent(16, 3, 101.0)
    quick.ended(range(4, 14), 100.009)
    assert quick.hold_until(1) is not None
