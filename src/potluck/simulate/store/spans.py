"""Sets of item numbers, as PostgreSQL's int4multirange keeps them: sorted, apart, half open."""

import re
from collections.abc import Iterable
from typing import TypeAlias

import asyncpg

Spans: TypeAlias = tuple[tuple[int, int], ...]
NOTHING: Spans = ()


def of(ranges: Iterable[asyncpg.Range]) -> Spans:
    return joined((each.lower, each.upper) for each in ranges if not each.isempty)


def read(text: str) -> Spans:
    """As text, as which lists of them are sent."""
    return joined((int(start), int(end)) for start, end in re.findall(r"\[(\d+),(\d+)\)", text))


def shown(spans: Spans) -> list[asyncpg.Range]:
    """As a row hands it out."""
    return [asyncpg.Range(start, end) for start, end in spans]


def joined(pairs: Iterable[tuple[int, int]]) -> Spans:
    whole: list[tuple[int, int]] = []
    for start, end in sorted(pairs):
        if whole and start <= whole[-1][1]:
            whole[-1] = (whole[-1][0], max(end, whole[-1][1]))
        elif start < end:
            whole.append((start, end))
    return tuple(whole)


def union(left: Spans, right: Spans) -> Spans:
    return joined((*left, *right))


def without(left: Spans, right: Spans) -> Spans:
    kept: list[tuple[int, int]] = []
    for start, end in left:
        for begin, stop in right:
            if stop <= start or end <= begin:
                continue
            if start < begin:
                kept.append((start, begin))
            start = min(stop, end)
        if start < end:
            kept.append((start, end))
    return tuple(kept)


def contains(left: Spans, right: Spans) -> bool:
    return not without(right, left)


def size(spans: Spans) -> int:
    return sum(end - start for start, end in spans)


def first(spans: Spans) -> int | None:
    return spans[0][0] if spans else None


def shown_one(span: tuple[int, int] | None) -> "asyncpg.Range[int] | None":
    return None if span is None else asyncpg.Range(*span)
