"""What a driver says, if it can be meant. Drivers answer with all bits set where they know nothing,
and broken ones with anything."""

import re

MOST_MEMORY_BYTES = 2**46
# More than the linked cards of one machine; whoever says it has more is not believed.
MOST_DEVICES = 64
MOST_PIDS = 1_000


def memory_bytes(said: object) -> int | None:
    return _whole(said, MOST_MEMORY_BYTES)


def percent(said: object) -> float | None:
    return _real(said, 0, 100)


def celsius(said: object) -> float | None:
    return _real(said, -50, 150)


def watts(said: object) -> float | None:
    return _real(said, 0, 10_000)


def count(said: object) -> int | None:
    return _whole(said, 2**53)


def pids(said: list[object]) -> tuple[int, ...]:
    known = {pid for each in said[:MOST_PIDS] if (pid := _whole(each, 2**31))}
    return tuple(sorted(known))


def capability(major: object, minor: object) -> str | None:
    """As the wire takes it: "8.6"."""
    said = f"{major}.{minor}"
    return said if re.fullmatch(r"[0-9]{1,2}\.[0-9]{1,2}", said) else None


def pcie(generation: object, width: object) -> str | None:
    """Such as "4.0 x16"."""
    lanes = _whole(width, 64)
    known = _whole(generation, 9)
    return f"{known}.0 x{lanes}" if known and lanes else None


def _whole(said: object, most: int) -> int | None:
    return said if isinstance(said, int) and 0 <= said <= most else None


def _real(said: object, least: float, most: float) -> float | None:
    """NaN is within no bounds."""
    return float(said) if isinstance(said, int | float) and least <= said <= most else None
