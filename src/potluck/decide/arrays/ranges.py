"""Which items of an array a node gets next.

A range is a few seconds of work: long enough to be worth a lease, short enough that a lost node
costs little. Before anything was seen of an array its items are expected to take what its owner
said, or what those of its name took; nobody gets more by that than its part of the pool, so that a
wrong word costs little more than an even cut. Near the end ranges shrink, and a node so slow that
it alone would hold the end up gets no more, so that all are done at about the same time; but what
is done in a moment is not cut any smaller, since a lease costs more than it would save. On a node
where nothing but failures has been seen ranges stay short, and it is left out while others are at
work: it may be the node.
"""

from math import ceil

from msgspec import Struct

from potluck.decide.charges import hold_micro
from potluck.decide.types import WaitingTask
from potluck.model.task import ItemRange

GOOD_SECONDS = 5.0
# By what was only expected, a node gets no more than this.
_MOST_UNSEEN = 5_000
# Whatever a node says of its speed, it gets no more than this, nor more than so many times what is
# good for the others: one that lies gets through little of an array.
_MOST_IN_RANGE = 10_000
_MOST_TIMES_OTHERS = 8
# Where this many items have failed and none has succeeded, and as long as that is so.
_MOST_IN_VAIN = 5
# Who needs so many times as long for one item as the others for all the rest is not waited for.
_TOO_SLOW = 2.0
_SHORTEST_SECONDS = 1e-6
# So much work is not worth two leases.
_WORTH_A_LEASE_SECONDS = 0.05
# A range may take this part of what is left for each of those at work.
_PART_OF_REST = 0.5


class ArraySpeed(Struct, frozen=True):
    """How fast an array goes."""

    item_seconds: float | None  # over all nodes, as seen so far; None before the first item is done
    node_item_seconds: float | None  # on the node that asks
    workers: int  # live attempts at the array, on any node
    in_vain: int = 0  # items that failed on the node that asks, if none succeeded there
    # How many could be at work at once in the whole pool, if nothing was seen of the array yet.
    slots: int | None = None


def next_range(task: WaitingTask, pace: ArraySpeed, most_items: int | None = None) -> ItemRange:
    """The first pending items, as many as are good for the node.

    Where none has succeeded yet, from the back, one behind the other: those that failed there come
    again, and are for others.
    """
    assert task.pending, "an array that waits has items that nobody was granted"
    count = _count(pending_items(task), pace)
    if most_items is not None:
        count = max(1, min(count, most_items))
    if pace.in_vain:
        last = task.pending[-1]
        end = max(last.start + 1, last.end - pace.in_vain)
        return ItemRange(max(last.start, end - count), end)
    first = task.pending[0]
    return ItemRange(first.start, min(first.end, first.start + count))


def is_unfit(pending: int, pace: ArraySpeed) -> bool:
    """Whether the rest, so many items, is better left to those already at work.

    They would be done with all of it before this node with one item, or all items fail on it.
    """
    if not pace.workers:
        return False
    return pace.in_vain >= _MOST_IN_VAIN or _is_too_slow(pending, pace)


def _is_too_slow(pending: int, pace: ArraySpeed) -> bool:
    if pace.item_seconds is None or pace.node_item_seconds is None:
        return False
    others = _rest_seconds(pending, pace) + pace.item_seconds
    return pace.node_item_seconds > _TOO_SLOW * others


def pending_items(task: WaitingTask) -> int:
    return sum(map(len, task.pending))


def affordable_items(available_micro: int, price_micro_per_hour: int, seconds: float) -> int | None:
    """How many items the account can hold credit for; None if they cost nothing."""
    each = hold_micro(price_micro_per_hour, seconds)
    return None if each == 0 else available_micro // each


def without(task: WaitingTask, taken: ItemRange) -> tuple[ItemRange, ...]:
    """What is pending once a range has been cut from the first piece, or from the last."""
    place = 0 if taken.start < task.pending[0].end else len(task.pending) - 1
    piece = task.pending[place]
    assert piece.start <= taken.start and taken.end <= piece.end
    rest = (ItemRange(piece.start, taken.start), ItemRange(taken.end, piece.end))
    return (*task.pending[:place], *filter(len, rest), *task.pending[place + 1 :])


def _count(pending: int, pace: ArraySpeed) -> int:
    """Before anything is known one item each, so that something is known soon."""
    if pace.item_seconds is None:
        return 1
    overall = max(pace.item_seconds, _SHORTEST_SECONDS)
    here = max(pace.node_item_seconds or overall, _SHORTEST_SECONDS)
    part = max(_PART_OF_REST * _rest_seconds(pending, pace), _WORTH_A_LEASE_SECONDS)
    most = min(_MOST_IN_RANGE, _MOST_TIMES_OTHERS * ceil(GOOD_SECONDS / overall))
    if pace.in_vain:
        most = min(most, _MOST_IN_VAIN)
    if pace.slots is not None:
        most = min(most, _MOST_UNSEEN, ceil(pending / max(1, pace.slots - pace.workers)))
    return max(1, min(ceil(GOOD_SECONDS / here), int(part / here), most))


def _rest_seconds(pending: int, pace: ArraySpeed) -> float:
    """How long those at work would need for all that is pending."""
    return pending * (pace.item_seconds or 0.0) / max(1, pace.workers)
