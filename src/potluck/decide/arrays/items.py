"""Items of an array: which outcomes count, which items are retried, and when the array ends.

An item counts once: its outcome is accepted if the reporting attempt still has the item to do. A
bad item never fails its neighbours. A range that ends before all of its items are done returns the
rest to the queue; accepted items stay accepted.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from potluck.decide.retry_policy import (
    POISONED_NODES,
    History,
    Next,
    Wait,
    is_uncounted_loss,
    loss_bound,
    loss_pause,
)
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, ItemRange, NextTry, TaskState

# The pending ranges are one column value, rewritten with each change of the array. While there are
# this many of them, failed items are not retried.
MOST_PIECES = 10_000


class ReportedItem(Protocol):
    """How one item ended, as a node reports it."""

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
    @property
    def last_lines(self) -> str: ...


class SucceededItems(Protocol):
    """Consecutive items that have all succeeded, as a node reports them."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def run_seconds(self) -> float: ...


class ItemFailure(Struct, frozen=True):
    """One more failure of an item; final if the item has no attempts left."""

    item: int
    failures: int
    is_final: bool
    reason: EndReason
    exit_code: int | None = None
    detail: str = ""
    last_lines: str = ""  # what it wrote last to stderr, and its exception


class HeldRange(Struct, frozen=True):
    """A live range, with what is needed to judge outcomes of its items."""

    remaining: tuple[ItemRange, ...]  # items without an outcome
    max_attempts: int
    pending_pieces: int  # of the array
    most_seconds: float  # since its node got it, not yet accounted for by any item
    cancelled: tuple[ItemRange, ...] = ()  # of a call stream; the node may not know it yet


class Accepted(Struct, frozen=True):
    """What a report changes: the done items, how many succeeded, and which are retried."""

    done: tuple[ItemRange, ...]
    succeeded: int
    again: tuple[ItemRange, ...]
    failures: tuple[ItemFailure, ...]
    run_seconds: float

    @property
    def failed_for_good(self) -> int:
        return sum(failure.is_final for failure in self.failures)


class ArrayPart(Struct, frozen=True):
    """The state of the array that decides, with the range's own end, what follows."""

    remaining: tuple[ItemRange, ...]  # items of the range without an outcome
    has_pending: bool  # items that no attempt was granted
    has_outcomes: bool  # some item of the array has succeeded or failed for good
    has_others: bool  # other attempts of the array are live
    items: int
    items_failed: int
    allow_failures: int
    is_open: bool = False  # a call stream that takes more items
    is_stream: bool = False


class RangeEnd(Struct, frozen=True):
    """What follows for the array, the rest of the range, and an item that is given up."""

    next: Next
    back: tuple[ItemRange, ...]
    given_up: ItemFailure | None = None


class CountedRuns(Struct, frozen=True):
    """The reported runs that count, and the items that remain after them."""

    runs: tuple[int, ...]  # indexes into the report
    remaining: tuple[ItemRange, ...]


def find_counted_runs(
    runs: Sequence[SucceededItems],
    remaining: Sequence[ItemRange],
    cancelled: Sequence[ItemRange] = (),
) -> CountedRuns | None:
    """Finds the runs that count: those with all items remaining, not those already done. Cancelled
    items in between do not matter.

    None if a run is partly done: its result is one value that cannot be split.
    """
    left, counted = list(remaining), list[int]()
    for place, run in enumerate(runs):
        parts = subtract(ItemRange(run.start, run.end), cancelled)
        held = [behind for part in parts if (behind := _place_of(part, left)) is not None]
        if held and len(held) == len(parts):
            counted.append(place)
            for part in parts:
                _take(part, left)
        elif any(_overlaps(part, left) for part in parts):
            return None
    return CountedRuns(tuple(counted), tuple(left))


def subtract(whole: ItemRange, removed: Sequence[ItemRange]) -> tuple[ItemRange, ...]:
    """The parts of a range without what is removed, which is sorted."""
    parts, start = list[ItemRange](), whole.start
    for part in removed:
        if part.end > start and part.start < whole.end:
            if part.start > start:
                parts.append(ItemRange(start, part.start))
            start = part.end
    if start < whole.end:
        parts.append(ItemRange(start, whole.end))
    return tuple(parts)


def _place_of(part: ItemRange, left: Sequence[ItemRange]) -> int | None:
    """The index of the range that contains it."""
    behind = bisect_right(left, part.start, key=_start)  # the first range that starts after it
    return behind - 1 if behind and part.end <= left[behind - 1].end else None


def _take(part: ItemRange, left: list[ItemRange]) -> None:
    place = _place_of(part, left)
    assert place is not None
    before = left[place]
    rest = (ItemRange(before.start, part.start), ItemRange(part.end, before.end))
    left[place : place + 1] = [each for each in rest if len(each)]


def _overlaps(part: ItemRange, left: Sequence[ItemRange]) -> bool:
    behind = bisect_right(left, part.start, key=_start)
    is_begun = behind > 0 and part.start < left[behind - 1].end
    return is_begun or (behind < len(left) and left[behind].start < part.end)


def _start(part: ItemRange) -> int:
    return part.start


def accept_outcomes(
    outcomes: Sequence[ReportedItem],
    held: HeldRange,
    failures_before: Mapping[int, int],
    runs: Sequence[SucceededItems] = (),
) -> Accepted:
    """The outcomes that count; of two outcomes for one item in a report, the first.

    `runs` are those that count, and `held` does not contain them. Items run one after the other, so
    their total time is capped by the time available.
    """
    counted = _counted(outcomes, held.remaining)
    most = held.max_attempts if held.pending_pieces < MOST_PIECES else 1
    failures = tuple(
        _failure(each, failures_before.get(each.item, 0) + 1, most)
        for each in counted
        if each.reason is not EndReason.COMPLETED
    )
    seconds = sum(each.run_seconds for each in counted) + sum(run.run_seconds for run in runs)
    returned = tuple(
        part for run in runs for part in subtract(ItemRange(run.start, run.end), held.cancelled)
    )
    return Accepted(
        done=(*returned, *to_ranges(each.item for each in counted)),
        succeeded=sum(map(len, returned)) + len(counted) - len(failures),
        again=to_ranges(each.item for each in failures if not each.is_final),
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
        outcome.last_lines,
    )


def decide_after_range(
    reason: EndReason, history: History, array: ArrayPart, now: datetime, wait: Wait
) -> RangeEnd:
    """`history` counts consecutive failures of whole ranges, and losses of the running item."""
    given_up = _given_up(reason, history, array)
    back = array.remaining if given_up is None else _without(array.remaining, given_up.item)
    failed = array.items_failed + (given_up is not None)
    is_cancelled = reason.facts.attempt_state is AttemptState.CANCELLED
    # An attempt on a call stream is cancelled with the call that it runs; the stream continues.
    if is_cancelled and reason.facts.next_try is NextTry.NONE and not array.is_stream:
        following = Next(TaskState.CANCELLED, reason)
    elif array.has_others:
        following = Next(None, None, _until(reason, history, now, wait, has_others=True))
    elif not (back or array.has_pending) and array.is_open:
        following = Next(TaskState.QUEUED, None)
    elif not (back or array.has_pending):
        following = _all_done(failed, array.allow_failures)
    elif _is_hopeless(reason, history, array):
        following = Next(TaskState.FAILED, reason)
    else:
        shown = None if reason is EndReason.COMPLETED else reason
        until = _until(reason, history, now, wait, has_others=False)
        following = Next(TaskState.QUEUED, shown, until)
    return RangeEnd(following, back, given_up)


def _all_done(failed: int, allowed: int) -> Next:
    if failed > allowed:
        return Next(TaskState.FAILED, EndReason.ITEMS_FAILED)
    return Next(TaskState.SUCCEEDED, EndReason.COMPLETED)


def _is_hopeless(reason: EndReason, history: History, array: ArrayPart) -> bool:
    """Whether whole ranges fail too often. Once items had outcomes, it may be the node's fault."""
    if reason.facts.attempt_state is not AttemptState.FAILED:
        return False
    most = history.max_attempts
    if array.has_outcomes:
        most = max(most, POISONED_NODES)
    return reason.facts.next_try is NextTry.NEVER or history.failures >= most


def _until(
    reason: EndReason, history: History, now: datetime, wait: Wait, *, has_others: bool
) -> datetime | None:
    """A lost range does not delay the others, except shortly if the node was not at fault: the
    next range may end the same way. A range that failed as a whole delays them."""
    match reason.facts.attempt_state:
        case AttemptState.FAILED:
            return wait.until(now, history.failures)
        case AttemptState.LOST if not has_others:
            return loss_pause(reason, history, now, wait)
        case AttemptState.LOST if is_uncounted_loss(reason):
            return wait.until(now, 1)
        case _:
            return None


def _given_up(reason: EndReason, history: History, array: ArrayPart) -> ItemFailure | None:
    """The item that was running when its range was lost, if it was lost too often."""
    bound = loss_bound(reason, history) if array.remaining else None
    if bound is None:
        return None
    return ItemFailure(array.remaining[0].start, 1, True, bound[0], detail=bound[1])


def to_ranges(items: Iterable[int]) -> tuple[ItemRange, ...]:
    """The items as sorted, merged ranges."""
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
    assert ranges[0].start == first
    rest = ItemRange(first + 1, ranges[0].end)
    return (*((rest,) if len(rest) else ()), *ranges[1:])
