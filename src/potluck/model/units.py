"""Sizes, times and credits in human-readable form.

GB is 10^9 bytes and GiB is 2^30, as in the standards. So a card sold as 24 GB, which reports a
little less than 24 GiB, meets `--vram 24GB`.
"""

import re
from datetime import datetime, timedelta

from potluck.model.credit import MICRO
from potluck.model.device import WHOLE_DEVICE_MILLI
from potluck.model.error import InvalidInput

_NUMBER = r"(\d{1,18}(?:\.\d{1,9})?)"
_SIZE = re.compile(_NUMBER + r"\s*([kmgtp]?)(i?)b?", re.IGNORECASE | re.ASCII)
_TIME_PART = re.compile(_NUMBER + r"\s*(sec|min|[smhd])\s*", re.IGNORECASE | re.ASCII)
_SECONDS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_POWERS = "kmgtp"
_LEAST_VRAM_BYTES = 10**6


def parse_bytes(text: str, option: str) -> int:
    """`8GB`, `512 MiB`, `1.5g`, or a plain number of bytes."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or (match[3] and not match[2]):
        raise InvalidInput(
            f"{option} {text!r} is not a size.", "Write it like 8GB, 512MB or 1.5GiB."
        )
    power = _POWERS.index(match[2].lower()) + 1 if match[2] else 0
    return int(float(match[1]) * (1024 if match[3] else 1000) ** power)


def parse_vram(text: str, option: str) -> int:
    """As `parse_bytes`, but 24 is not taken for 24 bytes, which every device has."""
    count = parse_bytes(text, option)
    if 0 < count < _LEAST_VRAM_BYTES:
        raise InvalidInput(
            f"{option} {text!r} is {show_bytes(count)}.", "Write it with its unit, such as 24GB."
        )
    return count


def parse_seconds(text: str, option: str) -> float:
    """`90`, `90s`, `15m`, `1h30m`, `1.5h`, `2d`."""
    rest, total = text.strip(), 0.0
    if re.fullmatch(_NUMBER, rest, re.ASCII):
        rest += "s"
    while match := _TIME_PART.match(rest):
        total += float(match[1]) * _SECONDS[match[2].lower()]
        rest = rest[match.end() :]
    if not rest and text.strip() and total == 0:
        raise InvalidInput(
            f"{option} {text!r} must be longer than zero.", "Write it like 90s, 15m, 1h30m or 2d."
        )
    if rest or total == 0:
        raise InvalidInput(
            f"{option} {text!r} is not a duration.", "Write it like 90s, 15m, 1h30m or 2d."
        )
    return total


def parse_credits(text: str, option: str) -> int:
    """Credits with up to six decimals, in micro-credits."""
    match = re.fullmatch(r"(\d{1,9})(?:\.(\d{1,6}))?", text.strip(), re.ASCII)
    if match is None:
        raise InvalidInput(
            f"{option} {text!r} is not a number of credits.",
            "Write it like 2 or 0.25: less than a billion, with up to six decimals.",
        )
    return int(match[1]) * MICRO + int((match[2] or "").ljust(6, "0"))


def parse_amount(text: str, option: str) -> int:
    """Credits that are moved: more than 0, in micro-credits."""
    micro = parse_credits(text, option)
    if not micro:
        raise InvalidInput(
            f"{option} must be more than 0.", "The smallest amount is 0.000001 credits."
        )
    return micro


def parse_milli(text: str, option: str) -> int:
    """`0.25`, `250m` or `25%`: a part of a device, in thousandths."""
    match = re.fullmatch(_NUMBER + r"\s*(m|%|)", text.strip(), re.ASCII)
    parts = {"m": 1.0, "%": 10.0, "": 1000.0}
    milli = float(match[1]) * parts[match[2]] if match else 0.0
    if not 1 <= milli <= WHOLE_DEVICE_MILLI or abs(milli - round(milli)) > 1e-6:
        raise InvalidInput(
            f"{option} {text!r} is not a part of a device.",
            "Write it like 0.25 or 250m, from 1m to 1; a thousandth is the smallest part.",
        )
    return round(milli)


def parse_moment(text: str, option: str, now: datetime) -> datetime:
    """`2h` (ago), `2026-01-31`, `2026-01-31T12:00`; without an offset, in local time."""
    try:
        moment = datetime.fromisoformat(text.strip())
        return moment.astimezone() if moment.tzinfo is None else moment
    except (ValueError, OverflowError, OSError):  # no date, or beyond the range of dates
        return _ago(text, option, now)


def _ago(text: str, option: str, now: datetime) -> datetime:
    try:
        return now - timedelta(seconds=parse_seconds(text, option))
    except (InvalidInput, OverflowError) as error:
        raise InvalidInput(
            f"{option} {text!r} is not a time.", "Write it like 2h (ago) or 2026-01-31T12:00."
        ) from error


def show_bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if size < 1024:
            return f"{size:.3g} {unit}" if size < 100 else f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.3g} EiB"


def show_seconds(seconds: float) -> str:
    """Short, and no more exact than people need."""
    if seconds < 10:
        return f"{max(seconds, 0):.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    whole = int(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def show_credits(micro: int) -> str:
    sign = "-" if micro < 0 else ""
    whole, part = divmod(abs(micro), MICRO)
    decimals = f"{part:06d}".rstrip("0")
    return f"{sign}{whole}.{decimals}" if decimals else f"{sign}{whole}"


def show_amount(micro: int) -> str:
    """`1 credit`, `0.75 credits`."""
    number = show_credits(micro)
    return f"{number} credit" if number == "1" else f"{number} credits"


def show_count(count: int, singular: str, several: str | None = None) -> str:
    """`1 node`, `1,234 nodes`; `several` is an irregular plural."""
    return f"{count:,} {singular if count == 1 else several or f'{singular}s'}"


def show_milli(milli: int) -> str:
    """A share of a device as a decimal number."""
    return f"{milli / WHOLE_DEVICE_MILLI:.3f}".rstrip("0").rstrip(".")


def show_ahead(then: datetime, now: datetime) -> str:
    """The time until then; "over" if it has passed."""
    return show_age(now, then) if then > now else "over"


def show_since(then: datetime | None, now: datetime) -> str:
    return "never" if then is None else f"{show_age(then, now)} ago"


def show_age(then: datetime, now: datetime) -> str:
    """In the largest unit that fits."""
    seconds = max(now - then, timedelta()).total_seconds()
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def show_moment(then: datetime, now: datetime) -> str:
    """The local date, with the time if it is less than a day away."""
    exact = " %H:%M" if abs(then - now) < timedelta(days=1) else ""
    return f"{then.astimezone():%Y-%m-%d{exact}}"
