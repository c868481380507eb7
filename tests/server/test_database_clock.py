"""The database's time, kept by an instance between measurements."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from potluck.server.database_clock import DatabaseClock, elapsed_seconds

HOUR = timedelta(hours=1)


def measure(clock: DatabaseClock, ahead: timedelta, trip_seconds: float = 0.0) -> None:
    """The database answers in the middle of the trip, with a time that is this far ahead."""
    now = elapsed_seconds()
    clock.adjust(now - trip_seconds / 2, now + trip_seconds / 2, datetime.now(UTC) + ahead)


def difference(clock: DatabaseClock) -> float:
    return (clock.now() - datetime.now(UTC)).total_seconds()


def test_the_machines_clock_is_used_until_the_first_measurement() -> None:
    assert difference(DatabaseClock()) == pytest.approx(0, abs=0.1)


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
def test_the_databases_clock_is_used_from_the_first_measurement_on(ahead: timedelta) -> None:
    clock = DatabaseClock()
    measure(clock, ahead, trip_seconds=3)  # the trip does not count
    assert difference(clock) == pytest.approx(ahead.total_seconds(), abs=0.1)
    assert clock.skew_seconds == pytest.approx(-ahead.total_seconds(), abs=0.1)


def test_a_slow_answer_makes_it_no_worse_and_a_real_change_is_followed() -> None:
    clock = DatabaseClock()
    measure(clock, timedelta())
    now = elapsed_seconds()
    clock.adjust(now - 8, now, datetime.now(UTC))  # all of the time was spent on the way there
    clock.adjust(now, now + 8, datetime.now(UTC))  # or on the way back
    assert difference(clock) == pytest.approx(0, abs=0.1)
    measure(clock, HOUR, trip_seconds=2)
    assert difference(clock) == pytest.approx(3_599, abs=0.1), "as far as the answer proves"
    measure(clock, HOUR)
    assert difference(clock) == pytest.approx(3_600, abs=0.1)


def test_setting_the_machines_clock_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = DatabaseClock()
    measure(clock, timedelta())
    before, right = clock.now(), time.time
    monkeypatch.setattr(time, "time", lambda: right() - 86_400)
    assert timedelta() <= clock.now() - before < timedelta(minutes=1)
    assert clock.skew_seconds == pytest.approx(-86_400, abs=1)
