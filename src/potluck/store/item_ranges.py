"""Converts item ranges from and to PostgreSQL's."""

from collections.abc import Iterable

import asyncpg

from potluck.model.task import ItemRange


def multirange(ranges: Iterable[ItemRange]) -> "list[asyncpg.Range[int]]":
    return [asyncpg.Range(part.start, part.end) for part in ranges]


def multirange_text(ranges: Iterable[ItemRange]) -> str:
    """For lists of multiranges, which the driver would take for tables."""
    return "{" + ",".join(f"[{part.start},{part.end})" for part in ranges) + "}"


def item_ranges(stored: "Iterable[asyncpg.Range[int]]") -> tuple[ItemRange, ...]:
    return tuple(ItemRange(part.lower, part.upper) for part in stored)
