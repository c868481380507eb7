"""Chooses which items of an ended array a retry runs, and what it takes over from the others.

Items keep their numbers. Succeeded items count as done from the start, with the time that they
took, so the rest is split into ranges and forecast as before.
"""

from msgspec import Struct

from potluck.decide.arrays.items import MOST_PIECES
from potluck.model.error import Conflict
from potluck.model.task import ItemRange


class ArrayEnd(Struct, frozen=True):
    """How far an array had come when it ended."""

    items: int
    not_done: tuple[ItemRange, ...]  # as far as they are known
    items_succeeded: int
    items_done: int
    items_seconds: float  # of all done items together


class RetryPlan(Struct, frozen=True):
    pending: tuple[ItemRange, ...]
    items_succeeded: int = 0  # taken over
    items_seconds: float = 0.0


def plan_retry(end: ArrayEnd, all_items: bool) -> RetryPlan:
    """Runs all items also if the remaining ones are unknown or in too many pieces."""
    whole = RetryPlan((ItemRange(0, end.items),))
    if all_items:
        return whole
    left = end.items - end.items_succeeded
    if not left:
        raise Conflict(
            "All its items have succeeded, so there is nothing to retry.",
            "Use --all (`all_items`) to run all of them again.",
        )
    is_known = sum(map(len, end.not_done)) == left and len(end.not_done) <= MOST_PIECES
    if not is_known or not end.items_succeeded:
        return whole
    each = end.items_seconds / end.items_done if end.items_done else 0.0
    return RetryPlan(end.not_done, end.items_succeeded, each * end.items_succeeded)
