"""Ranges of items, as PostgreSQL has them and as we do."""

from collections.abc import Iterable

import asyncpg

from potluck.model.task import ItemRange


def multirange(ranges: Iterable[ItemRange]) -> "list[asyncpg.Range[int]]":
    return [asyncpg.Range(each.start, each.end) for each in ranges]


def multirange_text(ranges: Iterable[ItemRange]) -> str:
    """For lists of them, which the driver takes for tables."""
    return "{" + ",".join(f"[{each.start},{each.end})" for each in ranges) + "}"


def item_ranges(stored: "Iterable[asyncpg.Range[int]]") -> tuple[ItemRange, ...]:
    return tuple(ItemRange(each.lower, each.upper) for each in stored)
