"""Items of an array: which outcomes count, what is tried again, and when the whole is over.

An item counts once: its outcome is taken if the attempt that tells it still has the item to do. One
bad item never fails its neighbours. A range that ends in any way but by doing all of its items puts
the rest back; accepted items stay accepted.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from potluck.decide.retry_policy import (
    MAX_LOSSES,
    POISONED_NODES,
    History,
    Next,
    Wait,
    is_counted_loss,
)
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, ItemRange, NextTry, TaskState

# What waits is one value of a row, which all that happens to the array writes anew. While it is
# scattered into this many pieces, items that fail are not tried again.
MOST_PIECES = 10_000


class ReportedItem(Protocol):
    """How one item ended, as a node tells it."""

    @property
    def item(self) -> int: ...
    @property
    def reason(self) -> EndReason: ...
    @property
    def run_seconds(self) -> float: ...
    @property
    def exit_code(self) -> int | None: ...
    @property
    def detail(self) -> str: ...


class SucceededItems(Protocol):
    """Items in a row that have all succeeded, as a node tells it."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def run_seconds(self) -> float: ...


class ItemFailure(Struct, frozen=True):
    """One more failure of an item; the last one if it has used up its tries."""

    item: int
    failures: int
    is_final: bool
    reason: EndReason
    exit_code: int | None = None
    detail: str = ""


class HeldRange(Struct, frozen=True):
    """A live range, and what outcomes of its items are judged by."""

    remaining: tuple[ItemRange, ...]  # items without an outcome
    max_attempts: int
    pending_pieces: int  # of the array
    most_seconds: float  # since its node had it, that no item has accounted for


class Accepted(Struct, frozen=True):
    """What a report changes: items that are done; of them, how many succeeded, which come again."""

    done: tuple[ItemRange, ...]
    succeeded: int
    again: tuple[ItemRange, ...]
    failures: tuple[ItemFailure, ...]
    run_seconds: float

    @property
    def failed_for_good(self) -> int:
        return sum(failure.is_final for failure in self.failures)


class ArrayPart(Struct, frozen=True):
    """What the end of a range is decided by, besides the range's own fate."""

    remaining: tuple[ItemRange, ...]  # items of the range without an outcome
    has_pending: bool  # items that nobody has been granted
    has_outcomes: bool  # some item of the array has succeeded or failed for good
    has_others: bool  # other attempts of the array are live
    items: int
    items_failed: int
    allow_failures: int


class RangeEnd(Struct, frozen=True):
    """What becomes of the array, of the rest of the range, and of an item that is given up."""

    next: Next
    back: tuple[ItemRange, ...]
    given_up: ItemFailure | None = None


class Sorted(Struct, frozen=True):
    """Of what a report says, that which counts; and what is left to do once the runs are done."""

    runs: tuple[int, ...]  # by their place in the report
    remaining: tuple[ItemRange, ...]


def sort_out(runs: Sequence[SucceededItems], remaining: Sequence[ItemRange]) -> Sorted | None:
    """Runs count as a whole, or not at all if all of it is done; None if one is done in part.

    What it returned is one value: nobody could tell the part that counts from the other.
    """
    left, counted = list(remaining), list[int]()
    for place, run in enumerate(runs):
        behind = bisect_right(left, run.start, key=_start)  # the first that begins behind its start
        before = left[behind - 1] if behind else None
        if before is not None and run.end <= before.end:
            counted.append(place)
            rest = (ItemRange(before.start, run.start), ItemRange(run.end, before.end))
            left[behind - 1 : behind] = [part for part in rest if len(part)]
        elif (before is not None and run.start < before.end) or (
            behind < len(left) and left[behind].start < run.end
        ):
            return None
    return Sorted(tuple(counted), tuple(left))


def _start(part: ItemRange) -> int:
    return part.start


def accept(
    outcomes: Sequence[ReportedItem],
    held: HeldRange,
    failures_before: Mapping[int, int],
    runs: Sequence[SucceededItems] = (),
) -> Accepted:
    """The outcomes that count; of two for one item in one report the first does.

    The runs are those that count, and what is held is without them. Items come one after the other:
    together they took no longer than there was time.
    """
    counted = _counted(outcomes, held.remaining)
    most = held.max_attempts if held.pending_pieces < MOST_PIECES else 1
    failures = tuple(
        _failure(each, failures_before.get(each.item, 0) + 1, most)
        for each in counted
        if each.reason is not EndReason.COMPLETED
    )
    seconds = sum(each.run_seconds for each in counted) + sum(run.run_seconds for run in runs)
    returned = tuple(ItemRange(run.start, run.end) for run in runs)
    return Accepted(
        done=(*returned, *ranges_of(each.item for each in counted)),
        succeeded=sum(map(len, returned)) + len(counted) - len(failures),
        again=ranges_of(each.item for each in failures if not each.is_final),
        failures=failures,
        run_seconds=max(0.0, min(seconds, held.most_seconds)),
    )


def _counted(
    outcomes: Sequence[ReportedItem], remaining: Sequence[ItemRange]
) -> list[ReportedItem]:
    starts = [each.start for each in remaining]
    first: dict[int, ReportedItem] = {}
    for outcome in outcomes:
        place = bisect_right(starts, outcome.item) - 1
        if place >= 0 and outcome.item < remaining[place].end:
            first.setdefault(outcome.item, outcome)
    return list(first.values())


def _failure(outcome: ReportedItem, failures: int, max_attempts: int) -> ItemFailure:
    return ItemFailure(
        outcome.item,
        failures,
        failures >= max_attempts,
        outcome.reason,
        outcome.exit_code,
        outcome.detail,
    )


def after_range(
    reason: EndReason, history: History, array: ArrayPart, now: datetime, wait: Wait
) -> RangeEnd:
    """`history` has the failures of whole ranges in a row, and the losses of the item that ran."""
    given_up = _given_up(reason, history, array)
    back = array.remaining if given_up is None else _without(array.remaining, given_up.item)
    failed = array.items_failed + (given_up is not None)
    if reason.facts.attempt_state is AttemptState.CANCELLED:
        following = Next(TaskState.CANCELLED, reason)
    elif array.has_others:
        following = Next(None, None, _until(reason, history, now, wait, has_others=True))
    elif not (back or array.has_pending):
        following = _all_done(failed, array.allow_failures)
    elif _is_hopeless(reason, history, array):
        following = Next(TaskState.FAILED, reason)
    else:
        told = None if reason is EndReason.COMPLETED else reason
        until = _until(reason, history, now, wait, has_others=False)
        following = Next(TaskState.QUEUED, told, until)
    return RangeEnd(following, back, given_up)


def _all_done(failed: int, allowed: int) -> Next:
    if failed > allowed:
        return Next(TaskState.FAILED, EndReason.ITEMS_FAILED)
    return Next(TaskState.SUCCEEDED, EndReason.COMPLETED)


def _is_hopeless(reason: EndReason, history: History, array: ArrayPart) -> bool:
    """Whether ranges fail as a whole too often; once items had outcomes, it may be the node."""
    if reason.facts.attempt_state is not AttemptState.FAILED:
        return False
    most = history.max_attempts
    if array.has_outcomes:
        most = max(most, POISONED_NODES)
    return reason.facts.next_try is NextTry.NEVER or history.failures >= most


def _until(
    reason: EndReason, history: History, now: datetime, wait: Wait, *, has_others: bool
) -> datetime | None:
    """A lost range keeps nobody else waiting; one that failed as a whole slows all of them down."""
    next_try = reason.facts.next_try
    match reason.facts.attempt_state:
        case AttemptState.FAILED:
            return wait.until(now, history.failures)
        case AttemptState.LOST if next_try is NextTry.DECLINE_PAUSE:
            # While others work it is only kept from going to and fro as fast as it can be given.
            return wait.until(now, 1 if has_others else history.declines)
        case AttemptState.LOST if not has_others and next_try is not NextTry.AT_ONCE:
            return wait.until(now, max(1, history.losses))
        case _:
            return None


def _given_up(reason: EndReason, history: History, array: ArrayPart) -> ItemFailure | None:
    """The item that was running when its range was lost, if that has happened to it too often."""
    if not is_counted_loss(reason) or not array.remaining:
        return None
    item = array.remaining[0].start
    if history.nodes_lost >= POISONED_NODES:
        detail = f"It was lost on {history.nodes_lost} different nodes."
        return ItemFailure(item, 1, True, EndReason.POISON, detail=detail)
    if history.losses > MAX_LOSSES:
        detail = f"It was lost {history.losses} times."
        return ItemFailure(item, 1, True, EndReason.TOO_MANY_LOSSES, detail=detail)
    return None


def ranges_of(items: Iterable[int]) -> tuple[ItemRange, ...]:
    """The same items, as few ranges in order."""
    ranges: list[ItemRange] = []
    start = end = -1
    for item in sorted(items):
        if item != end:
            if end > start:
                ranges.append(ItemRange(start, end))
            start = item
        end = item + 1
    if end > start:
        ranges.append(ItemRange(start, end))
    return tuple(ranges)


def _without(ranges: Sequence[ItemRange], first: int) -> tuple[ItemRange, ...]:
    """All but the very first item."""
    assert ranges[0].start == first
    rest = ItemRange(first + 1, ranges[0].end)
    return (*((rest,) if len(rest) else ()), *ranges[1:])
