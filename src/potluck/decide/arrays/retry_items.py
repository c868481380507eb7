"""Which items of an array that has ended are run again, and what is taken over of the others.

They keep their numbers. What has succeeded counts as done from the start, with the time that it
took, so that the rest is cut and awaited as it was.
"""

from msgspec import Struct

from potluck.decide.arrays.items import MOST_PIECES
from potluck.model.error import Conflict
from potluck.model.task import ItemRange


class ArrayEnd(Struct, frozen=True):
    """How far an array had come when it ended."""

    items: int
    not_done: tuple[ItemRange, ...]  # as far as it is known which
    items_succeeded: int
    items_done: int
    items_seconds: float  # that all that were done took together


class RetryPlan(Struct, frozen=True):
    pending: tuple[ItemRange, ...]
    items_succeeded: int = 0  # taken over
    items_seconds: float = 0.0


def again(end: ArrayEnd, all_items: bool) -> RetryPlan:
    """All of them, too, where it is not known which are left, or they are in too many pieces."""
    whole = RetryPlan((ItemRange(0, end.items),))
    if all_items:
        return whole
    left = end.items - end.items_succeeded
    if not left:
        raise Conflict(
            "All its items have succeeded, so there is none to try again.",
            "Say --all (`all_items`) to run all of them once more.",
        )
    is_known = sum(map(len, end.not_done)) == left and len(end.not_done) <= MOST_PIECES
    if not is_known or not end.items_succeeded:
        return whole
    each = end.items_seconds / end.items_done if end.items_done else 0.0
    return RetryPlan(end.not_done, end.items_succeeded, each * end.items_succeeded)
