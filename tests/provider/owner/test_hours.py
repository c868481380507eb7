"""Hours of the week as owners write them."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from potluck.model.error import InvalidInput
from potluck.model.hours import ALWAYS, is_open, next_change, parse_hours

# By the clock on the wall: no zone.
MONDAY = datetime.fromisoformat("2026-03-02T00:00")
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def at(day: str, clock: str) -> datetime:
    hour, minute = clock.split(":")
    return MONDAY + timedelta(days=DAYS.index(day), hours=int(hour), minutes=int(minute))


@pytest.mark.parametrize(
    ("text", "opened", "closed"),
    [
        # a whole day
        ("sat", [("sat", "00:00"), ("sat", "23:59")], [("fri", "23:59"), ("sun", "00:00")]),
        # from day to day, and round the week
        ("mon-fri", [("mon", "00:00"), ("fri", "23:59")], [("sat", "00:00"), ("sun", "12:00")]),
        ("sat-mon", [("sun", "12:00"), ("mon", "23:59")], [("tue", "00:00"), ("fri", "23:59")]),
        # a time of every day
        ("9-17:30", [("mon", "09:00"), ("sun", "17:29")], [("sun", "17:30"), ("wed", "08:59")]),
        ("18:00-24:00", [("sat", "23:59")], [("sun", "00:00"), ("sun", "17:59")]),
        # over midnight: the morning after belongs to it, also that of Monday
        (
            "mon-fri 18:00-08:00",
            [("mon", "18:00"), ("tue", "07:59"), ("sat", "07:59")],
            [("mon", "07:59"), ("sat", "08:00"), ("tue", "12:00")],
        ),
        ("sun 22:00-06:00", [("sun", "23:00"), ("mon", "05:59")], [("mon", "06:00")]),
        # several, in any spelling of days
        (
            "Monday - Friday 18:00-08:00, SAT, sun 10:00 - 12:00",
            [("sat", "12:00"), ("sun", "11:59"), ("fri", "20:00")],
            [("sun", "12:00"), ("sun", "09:59"), ("fri", "12:00")],
        ),
        ("", [("mon", "00:00"), ("sun", "23:59")], []),
    ],
)
def test_hours_are_open_as_written(
    text: str, opened: list[tuple[str, str]], closed: list[tuple[str, str]]
) -> None:
    week = parse_hours(text)
    assert [moment for moment in opened if not is_open(week, at(*moment))] == []
    assert [moment for moment in closed if is_open(week, at(*moment))] == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("someday", "'someday'"),
        ("mon-fry 8-9", "'fry'"),
        ("8:00", "'8:00'"),
        ("25:00-26:00", "'25:00'"),
        ("08:60-09:00", "'08:60'"),
        ("24:01-01:00", "'24:01'"),
        ("08:00-08:00", "ends when it starts"),
        ("24:00-08:00", "ends when it starts"),
        ("mon,,tue", "''"),
        ("mon 8-9 10-11", "'mon 8-9 10-11'"),
        ("\u0661\u0662-13", "'\u0661\u0662-13'"),
    ],
)
def test_invalid_hours_are_refused_with_an_example(text: str, sentence: str) -> None:
    with pytest.raises(InvalidInput, match="hours") as error_info:
        parse_hours(text)
    assert sentence in error_info.value.detail
    assert "mon-fri 18:00-08:00" in error_info.value.hint


def test_the_next_change_is_by_the_clock_on_the_wall() -> None:
    week = parse_hours("mon-fri 18:00-08:00, sat, sun")
    assert next_change(week, at("mon", "12:00")) == at("mon", "18:00")
    assert next_change(week, at("mon", "18:00")) == at("tue", "08:00")
    # Friday night goes on into the weekend, and that into Monday's midnight.
    assert next_change(week, at("fri", "18:00")) == MONDAY + timedelta(days=7)
    assert next_change(parse_hours("mon-sun"), MONDAY) is None
    assert next_change(ALWAYS, MONDAY) is None


_days = st.sampled_from(["", *DAYS, "mon-fri", "fri-tue", "sat-sun"])
_times = st.tuples(st.integers(0, 23), st.integers(0, 59), st.integers(0, 23), st.integers(0, 59))


@st.composite
def _parts(draw: st.DrawFn) -> str:
    day, (begin, begin_minute, end, end_minute) = draw(_days), draw(_times)
    is_whole = (begin, begin_minute) == (end, end_minute) or (day and draw(st.booleans()))
    if is_whole:
        return day or "wed"
    return f"{day} {begin}:{begin_minute:02}-{end}:{end_minute:02}"


@settings(deadline=None)
@given(st.lists(_parts(), min_size=1, max_size=4), st.integers(0, 7 * 1440 - 1))
def test_between_now_and_the_next_change_nothing_changes(parts: list[str], minute: int) -> None:
    week = parse_hours(", ".join(parts))
    now = MONDAY + timedelta(minutes=minute, seconds=30)
    later = next_change(week, now)
    end = now + timedelta(days=7) if later is None else later
    assert end > now
    assert later is None or is_open(week, later) is not is_open(week, now)
    step = max((end - now) // 50, timedelta(minutes=1))
    moments = [now + step * number for number in range(50) if now + step * number < end]
    assert {is_open(week, moment) for moment in moments} == {is_open(week, now)}


@settings(deadline=None)
@given(st.lists(_parts(), min_size=1, max_size=4))
def test_a_part_opens_no_less_in_company(parts: list[str]) -> None:
    """What each part opens is open in all of them together, and nothing else is."""
    together = parse_hours(", ".join(parts))
    alone = [parse_hours(part) for part in parts]
    for moment in (MONDAY + timedelta(minutes=number) for number in range(0, 7 * 1440, 97)):
        assert is_open(together, moment) is any(is_open(part, moment) for part in alone)


@settings(deadline=None)
@given(st.lists(_parts(), min_size=1, max_size=6))
def test_windows_are_in_order_and_apart(parts: list[str]) -> None:
    week = parse_hours(", ".join(parts))
    edges = [edge for window in week.windows for edge in window]
    assert edges == sorted(set(edges))
    assert 0 <= edges[0] < edges[-1] <= 7 * 1440
