"""Items of an array: what counts, what comes again, and when the whole is over."""

import time
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from potluck.decide.arrays.items import (
    ArrayPart,
    CountedRuns,
    HeldRange,
    accept_outcomes,
    decide_after_range,
    find_counted_runs,
    to_ranges,
)
from potluck.decide.retry_policy import MAX_UNCOUNTED_LOSSES, History, Wait
from potluck.model.backoff import BackOff
from potluck.model.blob import Value
from potluck.model.task import EndReason, ItemRange, TaskState
from potluck.wire.provider import ItemOutcome, ReturnedItems
from tests.decide.builders import NOW

CALM = Wait(BackOff(first_seconds=1, longest_seconds=60), jitter=1.0)
ARRAY = ArrayPart(
    remaining=(ItemRange(3, 6),),
    has_pending=False,
    has_outcomes=True,
    has_others=False,
    items=10,
    items_failed=0,
    allow_failures=0,
)
DONE = replace(ARRAY, remaining=())


def outcome(item: int, reason: EndReason = EndReason.COMPLETED) -> ItemOutcome:
    return ItemOutcome(item, reason, 1.0, 0 if reason is EndReason.COMPLETED else 1)


@given(st.sets(st.integers(0, 50)))
def test_ranges_hold_the_same_items_in_as_few_as_possible(items: set[int]) -> None:
    ranges = to_ranges(items)
    assert {item for range_ in ranges for item in range(range_.start, range_.end)} == items
    assert all(range_.end < other.start for range_, other in pairwise(ranges))


@given(
    remaining=st.sets(st.integers(0, 20)),
    items=st.lists(st.tuples(st.integers(0, 25), st.booleans()), max_size=40),
    before=st.dictionaries(st.integers(0, 20), st.integers(1, 3)),
    max_attempts=st.integers(1, 4),
)
def test_each_item_that_was_left_to_do_counts_once(
    remaining: set[int], items: list[tuple[int, bool]], before: dict[int, int], max_attempts: int
) -> None:
    outcomes = [
        outcome(item, EndReason.COMPLETED if is_good else EndReason.EXIT_STATUS)
        for item, is_good in items
    ]
    held = HeldRange(to_ranges(remaining), max_attempts, pending_pieces=0, most_seconds=1000.0)
    accepted = accept_outcomes(outcomes, held, before)
    first = {item: is_good for item, is_good in reversed(items) if item in remaining}
    final = {failure.item for failure in accepted.failures if failure.is_final}
    assert _items(accepted.done) == set(first)
    assert accepted.succeeded == sum(first.values())
    assert _items(accepted.again) | final == {item for item, good in first.items() if not good}
    assert not _items(accepted.again) & final
    assert final == {
        item
        for item, is_good in first.items()
        if not is_good and before.get(item, 0) + 1 >= max_attempts
    }
    assert accepted.run_seconds == len(first)


@given(
    remaining=st.sets(st.integers(0, 20)),
    spans=st.lists(st.tuples(st.integers(0, 22), st.integers(1, 8)), max_size=12),
)
def test_a_run_of_returned_items_counts_as_a_whole_or_not_at_all(
    remaining: set[int], spans: list[tuple[int, int]]
) -> None:
    runs = [ReturnedItems(start, start + length, 1.0, Value()) for start, length in spans]
    remaining_items, counted = set(remaining), list[int]()
    counted_runs = find_counted_runs(runs, to_ranges(remaining))
    for place, run in enumerate(runs):
        items = set(range(run.start, run.end))
        if items <= remaining_items:
            counted.append(place)
        elif items & remaining_items:
            assert counted_runs is None
            return
        remaining_items -= items
    assert counted_runs == CountedRuns(tuple(counted), to_ranges(remaining_items))


def test_many_runs_are_sorted_out_quickly() -> None:
    """A node chooses what it tells; it is done in the server's event loop."""
    remaining = to_ranges(range(1, 10_000, 2))
    items = [*range(0, 1_000, 2), *range(9_001, 10_000, 2)]
    runs = [ReturnedItems(item, item + 1, 1.0, Value()) for item in items]
    started = time.process_time()
    counted_runs = find_counted_runs(runs, remaining)
    assert time.process_time() - started < 0.1
    assert counted_runs == CountedRuns(tuple(range(500, 1_000)), remaining[:4_500])


@pytest.mark.parametrize(
    ("seconds_each", "most", "counted"),
    [
        ([1.0, 2.0], 10.0, 3.0),  # there was time for it
        ([1e9, 2.0], 10.0, 10.0),  # whoever says so, they took no longer than that
        ([1.0], -0.5, 0.0),  # there was none left
    ],
)
def test_the_counted_run_time_of_items_is_at_most_the_elapsed_time(
    seconds_each: list[float], most: float, counted: float
) -> None:
    held = HeldRange((ItemRange(0, 9),), 1, pending_pieces=0, most_seconds=most)
    outcomes = [
        replace(outcome(item), run_seconds=seconds) for item, seconds in enumerate(seconds_each)
    ]
    assert accept_outcomes(outcomes, held, {}).run_seconds == counted


def _items(ranges: tuple[ItemRange, ...]) -> set[int]:
    return {item for range_ in ranges for item in range(range_.start, range_.end)}


ENDS = [
    # (how the range ended, the array then, failures, losses and nodes lost; next state and reason)
    (EndReason.COMPLETED, DONE, 0, 0, 0, TaskState.SUCCEEDED, EndReason.COMPLETED),
    (EndReason.LEASE_EXPIRED, DONE, 0, 1, 1, TaskState.SUCCEEDED, EndReason.COMPLETED),
    (
        EndReason.COMPLETED,
        replace(DONE, items_failed=1),
        *(0, 0, 0, TaskState.FAILED, EndReason.ITEMS_FAILED),
    ),
    (
        EndReason.COMPLETED,
        replace(DONE, items_failed=1, allow_failures=1),
        *(0, 0, 0, TaskState.SUCCEEDED, EndReason.COMPLETED),
    ),
    (EndReason.COMPLETED, replace(DONE, has_pending=True), 0, 0, 0, TaskState.QUEUED, None),
    (EndReason.COMPLETED, replace(DONE, has_others=True), 0, 0, 0, None, None),
    (EndReason.NODE_LEFT, ARRAY, 0, 9, 9, TaskState.QUEUED, EndReason.NODE_LEFT),
    (EndReason.LEASE_EXPIRED, ARRAY, 0, 1, 1, TaskState.QUEUED, EndReason.LEASE_EXPIRED),
    (EndReason.LEASE_EXPIRED, replace(ARRAY, has_others=True), 0, 1, 1, None, None),
    (EndReason.CANCELLED, ARRAY, 0, 0, 0, TaskState.CANCELLED, EndReason.CANCELLED),
    # Once items had outcomes elsewhere, it may be the node that cannot prepare it.
    (EndReason.PREPARE_FAILED, ARRAY, 2, 0, 0, TaskState.QUEUED, EndReason.PREPARE_FAILED),
    (EndReason.PREPARE_FAILED, ARRAY, 3, 0, 0, TaskState.FAILED, EndReason.PREPARE_FAILED),
    (
        EndReason.PREPARE_FAILED,
        replace(ARRAY, has_outcomes=False),
        *(1, 0, 0, TaskState.FAILED, EndReason.PREPARE_FAILED),
    ),
    (EndReason.PREPARE_FAILED, replace(ARRAY, has_others=True), 9, 0, 0, None, None),
    (EndReason.SPEC_UNREADABLE, ARRAY, 1, 0, 0, TaskState.FAILED, EndReason.SPEC_UNREADABLE),
]


@pytest.mark.parametrize("row", ENDS, ids=[f"{row[0]}-{row[5]}-{i}" for i, row in enumerate(ENDS)])
def test_next_state_of_an_array_after_a_range(row: tuple) -> None:  # type: ignore[type-arg]
    reason, array, failures, losses, nodes_lost, state, end_reason = row
    end = decide_after_range(reason, History(failures, losses, nodes_lost, 1), array, NOW, CALM)
    assert (end.next.state, end.next.reason) == (state, end_reason)
    assert end.back == array.remaining
    assert end.given_up is None


@pytest.mark.parametrize(
    ("losses", "nodes_lost", "reason"),
    [(3, 3, EndReason.POISON), (6, 1, EndReason.TOO_MANY_LOSSES)],
)
def test_an_item_that_is_lost_too_often_is_given_up_alone(
    losses: int, nodes_lost: int, reason: EndReason
) -> None:
    history = History(0, losses, nodes_lost, 1)
    end = decide_after_range(EndReason.LEASE_EXPIRED, history, ARRAY, NOW, CALM)
    assert end.given_up is not None
    assert (end.given_up.item, end.given_up.reason, end.given_up.is_final) == (3, reason, True)
    assert (end.back, end.next.state) == ((ItemRange(4, 6),), TaskState.QUEUED)
    last = replace(ARRAY, remaining=(ItemRange(9, 10),))
    end = decide_after_range(EndReason.LEASE_EXPIRED, history, last, NOW, CALM)
    assert (end.back, end.next.reason) == ((), EndReason.ITEMS_FAILED)


def test_an_item_whose_range_is_stopped_without_end_is_given_up() -> None:
    history = History(0, 0, 0, 1, uncounted_losses=MAX_UNCOUNTED_LOSSES)
    end = decide_after_range(EndReason.SILENCE, history, ARRAY, NOW, CALM)
    assert end.given_up is not None
    assert (end.given_up.item, end.given_up.reason) == (3, EndReason.TOO_MANY_LOSSES)


def test_a_lost_range_delays_nothing_while_others_work() -> None:
    history = History(1, 1, 1, 1, uncounted_losses=3)
    busy = replace(ARRAY, has_others=True)
    for reason, array, seconds in [
        (EndReason.LEASE_EXPIRED, busy, None),
        (EndReason.LEASE_EXPIRED, ARRAY, 1),
        (EndReason.WITHDRAWN, ARRAY, 4),
        (EndReason.RECLAIMED, ARRAY, 4),
        (EndReason.DECLINED, ARRAY, 4),
        (EndReason.SILENCE, busy, 1),
        (EndReason.DECLINED, busy, 1),
        (EndReason.PREPARE_FAILED, busy, 1),
    ]:
        not_before = decide_after_range(reason, history, array, NOW, CALM).next.not_before
        assert not_before == (None if seconds is None else NOW + timedelta(seconds=seconds)), reason
