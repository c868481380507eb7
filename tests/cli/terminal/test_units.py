"""Sizes, times and credits, as people write and read them."""

from datetime import UTC, datetime, timedelta

import pytest

from potluck.model.error import InvalidInput
from potluck.model.units import (
    parse_amount,
    parse_bytes,
    parse_credits,
    parse_milli,
    parse_moment,
    parse_seconds,
    parse_vram,
    show_age,
    show_bytes,
    show_credits,
    show_milli,
    show_moment,
    show_seconds,
)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        ("512", 512),
        ("512B", 512),
        ("8GB", 8 * 10**9),
        ("8 gb", 8 * 10**9),
        ("8g", 8 * 10**9),
        ("1.5GiB", 3 * 2**29),
        ("256MiB", 2**28),
        ("2k", 2000),
        ("1TB", 10**12),
    ],
)
def test_a_size(text: str, count: int) -> None:
    assert parse_bytes(text, "--memory") == count


@pytest.mark.parametrize(
    "text", ["", "GB", "-1GB", "8 XB", "8iB", "1e9", "NaN", "8GBs", "1.GB", "９GB", "1" * 50]
)
def test_invalid_sizes_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"--memory .* is not a size") as raised:
        parse_bytes(text, "--memory")
    assert "8GB" in raised.value.hint


def test_a_memory_of_a_device_without_a_unit_is_refused() -> None:
    """Every device has 24 bytes."""
    with pytest.raises(InvalidInput, match="--vram '24' is 24 B") as raised:
        parse_vram("24", "--vram")
    assert "24GB" in raised.value.hint
    assert [parse_vram(text, "--vram") for text in ("0", "24GB")] == [0, 24 * 10**9]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("15m", 900),
        ("15 min", 900),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("1.5h", 5400),
        ("2d", 172_800),
    ],
)
def test_a_length_of_time(text: str, seconds: float) -> None:
    assert parse_seconds(text, "--time") == seconds


@pytest.mark.parametrize("text", ["", "soon", "1x", "-5m", "1h-", "inf", "h", "1h30", "٣m"])
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"--time .* is not a duration"):
        parse_seconds(text, "--time")


@pytest.mark.parametrize("text", ["0", "0s", "0h0m"])
def test_a_duration_of_zero_is_refused_as_such(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"--time .* must be longer than zero"):
        parse_seconds(text, "--time")


@pytest.mark.parametrize(
    ("text", "micro"), [("2", 2_000_000), ("0.25", 250_000), ("0.000001", 1), ("10.5", 10_500_000)]
)
def test_credits_both_ways(text: str, micro: int) -> None:
    assert parse_credits(text, "CREDITS") == micro
    assert show_credits(micro) == text


@pytest.mark.parametrize("text", ["0", "0.000000"])
def test_an_amount_to_move_is_more_than_nothing(text: str) -> None:
    with pytest.raises(InvalidInput, match="CREDITS must be more than 0"):
        parse_amount(text, "CREDITS")


@pytest.mark.parametrize("text", ["", "-1", "1.0000001", "1e3", "one", "1,5"])
def test_invalid_amounts_of_credit(text: str) -> None:
    with pytest.raises(InvalidInput, match="not a number of credits"):
        parse_credits(text, "CREDITS")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0 s"),
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (10, "10 s"),
        (59.6, "60 s"),
        (61, "1 min 1 s"),
        (3_661, "1 h 1 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_seconds_are_formatted(seconds: float, text: str) -> None:
    assert show_seconds(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (2**30, "1 GiB"),
        (24_564 * 2**20, "24 GiB"),
        (2**50, "1 PiB"),
        (2**63, "8 EiB"),
    ],
)
def test_byte_counts_are_formatted(count: int, text: str) -> None:
    assert show_bytes(count) == text


def test_ages_are_formatted() -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    ages = [show_age(now - timedelta(seconds=age), now) for age in (-5, 59, 60, 3599, 7200, 90_000)]
    assert ages == ["0 s", "59 s", "1 min", "59 min", "2 h", "1 d"]


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("0.25", 250),
        ("250m", 250),
        ("25%", 250),
        ("1", 1000),
        ("1m", 1),
        ("0.001", 1),
        (" 1000m", 1000),
    ],
)
def test_parts_of_a_device(text: str, milli: int) -> None:
    assert parse_milli(text, "--fraction") == milli
    assert parse_milli(show_milli(milli), "--fraction") == milli


@pytest.mark.parametrize(
    "text", ["0", "1.001", "1001m", "0.5m", "0.0001", "-1", "half", "", "1e-1"]
)
def test_invalid_parts_of_a_device_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="not a part of a device"):
        parse_milli(text, "--fraction")


def test_moments() -> None:
    now = datetime(2026, 1, 2, 12, tzinfo=UTC)
    assert parse_moment("2h", "--since", now) == datetime(2026, 1, 2, 10, tzinfo=UTC)
    assert parse_moment("2026-01-01T10:00+02:00", "--since", now) == now - timedelta(hours=28)
    assert parse_moment("2026-01-01", "--since", now).tzinfo is not None
    for wrong in ("noon", "99999999d", "9999999999999999d"):
        with pytest.raises(InvalidInput, match="is not a time"):
            parse_moment(wrong, "--since", now)


@pytest.mark.parametrize("sign", [1, -1], ids=["ahead", "past"])
def test_a_moment_is_a_day_unless_it_is_near(sign: int) -> None:
    now = datetime(2026, 11, 16, 12, tzinfo=UTC)
    near, far = now + sign * timedelta(hours=3), now + sign * timedelta(days=3)
    assert show_moment(near, now) == f"{near.astimezone():%Y-%m-%d %H:%M}"
    assert show_moment(far, now) == f"{far.astimezone():%Y-%m-%d}"
