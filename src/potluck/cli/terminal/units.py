"""Formats sizes, times and credits; `model/units.py` parses them."""

from datetime import datetime, timedelta

from potluck.model.device import WHOLE_DEVICE_MILLI
from potluck.model.units import show_bytes as show_bytes
from potluck.model.units import show_credits as show_credits
from potluck.model.units import show_seconds as show_seconds


def show_count(count: int, one: str, several: str | None = None) -> str:
    """`1 node`, `1,234 nodes`; `several` is an irregular plural."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"


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
