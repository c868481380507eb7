"""Chooses the items of an array that a node gets next.

A range is a few seconds of work: long enough to be worth a lease, short enough that a lost node
costs little. Before the first observation, items are expected to take the declared time, or the
time of earlier tasks of that name; such a range is at most an even share of the pool, so a wrong
estimate costs little. Near the end ranges shrink, and a node so slow that it alone would delay the
end gets no more; but work that takes a moment is not split further, since a lease costs more than
it would save. A node with nothing but failures gets short ranges, and none while others work on the
array: the node may be at fault.
"""

from math import ceil

from msgspec import Struct

from potluck.decide.charges import hold_micro
from potluck.decide.types import WaitingTask
from potluck.model.task import ItemRange

GOOD_SECONDS = 5.0
# Most items of a range before anything was observed.
_MOST_UNSEEN = 5_000
# Limits of a range whatever speed a node reports, so that a lying node gets little of an array: a
# number of items, and a multiple of a usual range.
_MOST_IN_RANGE = 10_000
_MOST_TIMES_OTHERS = 8
# Failed items, with none succeeded, after which a node is left out.
_MOST_IN_VAIN = 5
# A node is too slow if one item takes it this many times as long as the others need for the rest.
_TOO_SLOW = 2.0
_SHORTEST_SECONDS = 1e-6
# Less work than this is not split.
_WORTH_A_LEASE_SECONDS = 0.05
# A range may take this part of the remaining work per live attempt.
_PART_OF_REST = 0.5


class ArraySpeed(Struct, frozen=True):
    """How fast an array goes."""

    item_seconds: float | None  # average of all nodes; None before the first item is done
    node_item_seconds: float | None  # on this node
    workers: int  # live attempts of the array, on any node
    in_vain: int = 0  # items that failed on this node, if none succeeded there
    slots: int | None = None  # attempts that the whole pool could run, before any observation


def next_range(task: WaitingTask, speed: ArraySpeed, most_items: int | None = None) -> ItemRange:
    """The first pending items, as many as suit the node.

    A node where only failures were seen gets items from the end, each time earlier ones: the items
    that failed there are retried elsewhere.
    """
    assert task.pending, "a waiting array has pending items"
    count = _count(pending_items(task), speed)
    if most_items is not None:
        count = max(1, min(count, most_items))
    if speed.in_vain:
        last = task.pending[-1]
        end = max(last.start + 1, last.end - speed.in_vain)
        return ItemRange(max(last.start, end - count), end)
    first = task.pending[0]
    return ItemRange(first.start, min(first.end, first.start + count))


def is_unfit(pending: int, speed: ArraySpeed) -> bool:
    """Whether the pending items are better left to the live attempts.

    They would finish all of them before this node finishes one, or all items fail on it.
    """
    if not speed.workers:
        return False
    return speed.in_vain >= _MOST_IN_VAIN or _is_too_slow(pending, speed)


def _is_too_slow(pending: int, speed: ArraySpeed) -> bool:
    if speed.item_seconds is None or speed.node_item_seconds is None:
        return False
    others = _rest_seconds(pending, speed) + speed.item_seconds
    return speed.node_item_seconds > _TOO_SLOW * others


def pending_items(task: WaitingTask) -> int:
    return sum(map(len, task.pending))


def affordable_items(available_micro: int, price_micro_per_hour: int, seconds: float) -> int | None:
    """How many items the account can hold credit for; None if they cost nothing."""
    each = hold_micro(price_micro_per_hour, seconds)
    return None if each == 0 else available_micro // each


def remove_range(task: WaitingTask, taken: ItemRange) -> tuple[ItemRange, ...]:
    """The pending ranges after `taken` was cut from the first or the last of them."""
    place = 0 if taken.start < task.pending[0].end else len(task.pending) - 1
    piece = task.pending[place]
    assert piece.start <= taken.start and taken.end <= piece.end
    rest = (ItemRange(piece.start, taken.start), ItemRange(taken.end, piece.end))
    return (*task.pending[:place], *filter(len, rest), *task.pending[place + 1 :])


def _count(pending: int, speed: ArraySpeed) -> int:
    """One item as long as no duration is known, so that one is known soon."""
    if speed.item_seconds is None:
        return 1
    overall = max(speed.item_seconds, _SHORTEST_SECONDS)
    here = max(speed.node_item_seconds or overall, _SHORTEST_SECONDS)
    part = max(_PART_OF_REST * _rest_seconds(pending, speed), _WORTH_A_LEASE_SECONDS)
    most = min(_MOST_IN_RANGE, _MOST_TIMES_OTHERS * ceil(GOOD_SECONDS / overall))
    if speed.in_vain:
        most = min(most, _MOST_IN_VAIN)
    if speed.slots is not None:
        most = min(most, _MOST_UNSEEN, ceil(pending / max(1, speed.slots - speed.workers)))
    return max(1, min(ceil(GOOD_SECONDS / here), int(part / here), most))


def _rest_seconds(pending: int, speed: ArraySpeed) -> float:
    """How long the live attempts would need for all pending items."""
    return pending * (speed.item_seconds or 0.0) / max(1, speed.workers)
