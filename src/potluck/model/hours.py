"""Hours of the week, such as `mon-fri 18:00-08:00, sat, sun 10:00-12:00`.

Parts are separated by commas; each is a day or a range of days, a range of times, or both. Without
times it is the whole day, without days it is every day. A range of times that ends before it starts
continues into the next day. All times are wall-clock times, also across changes of the clock.
"""

import re
from datetime import datetime, timedelta
from functools import lru_cache

from msgspec import Struct

from potluck.model.error import InvalidInput

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAY_MINUTES = 24 * 60
_WEEK_MINUTES = 7 * _DAY_MINUTES
_PART = re.compile(
    r"(?:(?P<first>[a-z]+)(?:\s*-\s*(?P<last>[a-z]+))?)?"
    r"\s*(?:(?P<begin>\d{1,2}(?::\d\d)?)\s*-\s*(?P<end>\d{1,2}(?::\d\d)?))?",
    re.ASCII,
)
_HINT = 'Write it like "mon-fri 18:00-08:00, sat, sun 10:00-12:00"; empty means always.'


class Week(Struct, frozen=True):
    """When it is open: minutes since midnight on Monday, sorted and disjoint."""

    windows: tuple[tuple[int, int], ...]  # [first, end)


ALWAYS = Week(((0, _WEEK_MINUTES),))


@lru_cache(maxsize=1024)
def parse_hours(text: str, option: str = "hours") -> Week:
    """Parses the hours; an empty text means always. Devices of a node usually have the same."""
    if not text.strip():
        return ALWAYS
    parts = dict.fromkeys(part.strip() for part in text.lower().split(","))
    spans = [span for part in parts for span in _spans(part, option)]
    return Week(_merged(spans))


def is_open(week: Week, local: datetime) -> bool:
    minute = _minute(local)
    return any(first <= minute < end for first, end in week.windows)


def next_change(week: Week, local: datetime) -> datetime | None:
    """The next wall-clock time at which it opens or closes; None if it never does."""
    if week == ALWAYS:
        return None
    was_open, minute = is_open(week, local), _minute(local)
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
    monday = midnight - timedelta(days=local.weekday())
    edges = sorted({edge for window in week.windows for edge in window})
    for edge in (*edges, *(edge + _WEEK_MINUTES for edge in edges)):
        moment = monday + timedelta(minutes=edge)
        if edge > minute and is_open(week, moment) is not was_open:
            return moment
    raise AssertionError("a week that is neither always open nor empty changes")


def _minute(local: datetime) -> int:
    return local.weekday() * _DAY_MINUTES + local.hour * 60 + local.minute


def _spans(part: str, option: str) -> list[tuple[int, int]]:
    match = _PART.fullmatch(part)
    if match is None or not part:
        raise InvalidInput(f"{option}: {part!r} is neither a day nor a range of times.", _HINT)
    begin, end = 0, _DAY_MINUTES
    if match["begin"]:
        begin, end = _time(match["begin"], option), _time(match["end"], option)
    if begin in (end, _DAY_MINUTES):
        raise InvalidInput(f"{option}: {part!r} ends when it starts.", _HINT)
    if end < begin:
        end += _DAY_MINUTES
    return [
        (day * _DAY_MINUTES + begin, day * _DAY_MINUTES + end)
        for day in _days(match["first"], match["last"], option)
    ]


def _days(first: str | None, last: str | None, option: str) -> list[int]:
    if first is None:
        return list(range(7))
    begin = _day(first, option)
    count = (_day(last, option) - begin) % 7 if last else 0
    return [(begin + offset) % 7 for offset in range(count + 1)]


def _day(name: str, option: str) -> int:
    for names in (_DAYS, _NAMES):
        if name in names:
            return names.index(name)
    raise InvalidInput(f"{option}: {name!r} is not a day of the week.", _HINT)


def _time(text: str, option: str) -> int:
    hour, _, minute = text.partition(":")
    minutes = int(hour) * 60 + int(minute or 0)
    if int(minute or 0) > 59 or minutes > _DAY_MINUTES:
        raise InvalidInput(f"{option}: {text!r} is not a time of day.", _HINT)
    return minutes


def _merged(spans: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Sorted and joined; a part past Sunday's end wraps to the start of the week."""
    within = [(first, min(end, _WEEK_MINUTES)) for first, end in spans]
    wrapped = [(0, end - _WEEK_MINUTES) for _, end in spans if end > _WEEK_MINUTES]
    joined: list[tuple[int, int]] = []
    for first, end in sorted(within + wrapped):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((first, end))
    return tuple(joined)
