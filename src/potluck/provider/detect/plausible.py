"""Filters a driver's values: None for implausible ones. Drivers set all bits for unknown values,
and broken ones return anything."""

import re

MOST_MEMORY_BYTES = 2**46
# More than the linked cards of one machine.
MOST_DEVICES = 64
MOST_PIDS = 1_000


def memory_bytes(value: object) -> int | None:
    return _whole(value, MOST_MEMORY_BYTES)


def percent(value: object) -> float | None:
    return _real(value, 0, 100)


def celsius(value: object) -> float | None:
    return _real(value, -50, 150)


def watts(value: object) -> float | None:
    return _real(value, 0, 10_000)


def count(value: object) -> int | None:
    return _whole(value, 2**53)


def pids(values: list[object]) -> tuple[int, ...]:
    return tuple(sorted({pid for value in values[:MOST_PIDS] if (pid := _whole(value, 2**31))}))


def capability(major: object, minor: object) -> str | None:
    """Such as "8.6"."""
    version = f"{major}.{minor}"
    return version if re.fullmatch(r"[0-9]{1,2}\.[0-9]{1,2}", version) else None


def pcie(generation: object, width: object) -> str | None:
    """Such as "4.0 x16"."""
    number, lanes = _whole(generation, 9), _whole(width, 64)
    return f"{number}.0 x{lanes}" if number and lanes else None


def _whole(value: object, most: int) -> int | None:
    return value if isinstance(value, int) and 0 <= value <= most else None


def _real(value: object, least: float, most: float) -> float | None:
    """NaN is within no bounds."""
    return float(value) if isinstance(value, int | float) and least <= value <= most else None
