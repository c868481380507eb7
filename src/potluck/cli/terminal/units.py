"""Sizes, times and credits as people read them; `model/units.py` reads what they write."""

from datetime import datetime, timedelta

from potluck.model.credit import MICRO
from potluck.model.device import WHOLE_DEVICE_MILLI


def show_count(count: int, one: str, several: str | None = None) -> str:
    """`1 node`, `1,234 nodes`; `several` where an s is not enough."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"


def show_milli(milli: int) -> str:
    """A part of a device, as a share of the whole."""
    return f"{milli / WHOLE_DEVICE_MILLI:.3f}".rstrip("0").rstrip(".")


def show_bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.3g} {unit}" if size < 100 else f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.3g} TiB"


def show_seconds(seconds: float) -> str:
    """Short, and never more exact than a person cares for."""
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


def show_ahead(then: datetime, now: datetime) -> str:
    """How far off it is; what is past is over."""
    return show_age(now, then) if then > now else "over"


def show_since(then: datetime | None, now: datetime) -> str:
    return "never" if then is None else f"{show_age(then, now)} ago"


def show_age(then: datetime, now: datetime) -> str:
    """Only the largest unit."""
    seconds = max(now - then, timedelta()).total_seconds()
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def show_moment(then: datetime, now: datetime) -> str:
    """Here, not in UTC: the day, and of what is less than a day away the time of day too."""
    exact = " %H:%M" if abs(then - now) < timedelta(days=1) else ""
    return f"{then.astimezone():%Y-%m-%d{exact}}"


def show_credits(micro: int) -> str:
    sign = "-" if micro < 0 else ""
    whole, part = divmod(abs(micro), MICRO)
    decimals = f"{part:06d}".rstrip("0")
    return f"{sign}{whole}.{decimals}" if decimals else f"{sign}{whole}"
