"""Ranges of arrays: a few seconds of work, less near the end, none for who would hold it up."""

import heapq
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potluck.decide.account import SchedulerAccount
from potluck.decide.arrays.node_speed import ArrayProgress, NodeSpeeds
from potluck.decide.arrays.ranges import (
    ArraySpeed,
    affordable_items,
    is_unfit,
    next_range,
    pending_items,
    remove_range,
)
from potluck.decide.reservations.running import RunningWork
from potluck.decide.reservations.timetable import Timetable
from potluck.decide.types import Assignment
from potluck.model.ids import NodeId
from potluck.model.task import ItemRange
from tests.decide.builders import task


def test_before_anything_is_measured_every_node_gets_one_item() -> None:
    array = task("t1", pending=(ItemRange(0, 1000),))
    assert next_range(array, ArraySpeed(None, None, 0)) == ItemRange(0, 1)


@pytest.mark.parametrize("slots", [1, 2, 3, 16, 100])
def test_items_expected_to_be_quick_are_split_evenly(slots: int) -> None:
    """If it is not, all slots are at work on it, and none has more than its part."""
    array, sizes = task("t1", pending=(ItemRange(0, 5_000),)), []
    for workers in range(slots):
        next_items = next_range(array, ArraySpeed(1e-6, None, workers, slots=slots))
        array = task("t1", pending=remove_range(array, next_items))
        sizes.append(len(next_items))
    assert not array.pending
    assert max(sizes) - min(sizes) <= 1


def test_an_unproven_speed_gives_a_bounded_range() -> None:
    array = task("t1", pending=(ItemRange(0, 1_000_000),))
    assert len(next_range(array, ArraySpeed(1e-6, None, 0, slots=1))) == 5_000
    assert len(next_range(array, ArraySpeed(0.1, None, 0, slots=1))) == 50


def test_an_expected_time_gives_no_larger_range_than_a_measured_one() -> None:
    array = task("t1", pending=(ItemRange(0, 10_000),))
    for seconds in (1e-6, 1e-4, 0.01, 1.0, 10.0):
        expected = next_range(array, ArraySpeed(seconds, None, 1, slots=2))
        assert len(expected) <= len(next_range(array, ArraySpeed(seconds, None, 1)))


@pytest.mark.parametrize("item_seconds", [0.001, 0.05, 0.4, 1.0, 3.0])
def test_a_range_is_two_to_ten_seconds_of_work(item_seconds: float) -> None:
    array = task("t1", pending=(ItemRange(0, 1_000_000),))
    next_items = next_range(array, ArraySpeed(item_seconds, None, 4))
    assert 2.0 <= len(next_items) * item_seconds <= 10.0


def test_a_slow_node_gets_fewer() -> None:
    array = task("t1", pending=(ItemRange(0, 100_000),))
    assert len(next_range(array, ArraySpeed(0.1, 1.0, 4))) == 5
    assert len(next_range(array, ArraySpeed(0.1, 0.1, 4))) == 50


def test_a_node_of_implausible_speed_gets_a_bounded_range() -> None:
    array = task("t1", pending=(ItemRange(0, 1_000_000),))
    assert len(next_range(array, ArraySpeed(2.0, 1e-6, 1))) == 24
    assert len(next_range(array, ArraySpeed(0.0, 0.0, 1))) == 10_000
    assert len(next_range(array, ArraySpeed(1e-4, 1e-6, 1))) == 10_000


def test_near_the_end_ranges_shrink() -> None:
    sizes = [
        len(next_range(task("t1", pending=(ItemRange(0, count),)), ArraySpeed(0.1, None, 5)))
        for count in (10_000, 400, 100, 20, 1)
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 50 and sizes[2] == 10 and sizes[-1] == 1


@pytest.mark.parametrize("item_seconds", [0.0, 1e-6, 5e-6, 2e-5])
@pytest.mark.parametrize("workers", [1, 2])
def test_ten_thousand_cheap_items_are_a_few_leases(item_seconds: float, workers: int) -> None:
    array, ranges = task("t1", pending=(ItemRange(0, 10_000),)), 0
    while array.pending:
        speed = None if ranges < workers else item_seconds
        next_items = next_range(array, ArraySpeed(speed, speed, workers))
        array, ranges = task("t1", pending=remove_range(array, next_items)), ranges + 1
    assert ranges <= 8


@pytest.mark.parametrize(("remaining", "count"), [(400, 20), (40, 5), (5, 5), (3, 3)])
def test_short_arrays_are_not_split_further(remaining: int, count: int) -> None:
    array = task("t1", pending=(ItemRange(0, remaining),))
    assert len(next_range(array, ArraySpeed(0.01, 0.01, 10))) == count


def test_a_range_has_no_gap() -> None:
    array = task("t1", pending=(ItemRange(3, 5), ItemRange(9, 99)))
    next_items = next_range(array, ArraySpeed(0.1, None, 0))
    assert next_items == ItemRange(3, 5)
    assert remove_range(array, next_items) == (ItemRange(9, 99),)


def test_a_node_much_slower_than_all_others_together_gets_no_range() -> None:
    assert is_unfit(8, ArraySpeed(1.0, 20.0, 4))
    assert not is_unfit(8, ArraySpeed(1.0, 1.5, 4))
    assert not is_unfit(8, ArraySpeed(1.0, 20.0, 0)), "somebody must do it"
    assert not is_unfit(8, ArraySpeed(1.0, None, 4)), "nobody knows yet"


def test_after_failures_alone_small_new_ranges_are_tried() -> None:
    array = task("t1", pending=(ItemRange(0, 10), ItemRange(20, 1000)))
    next_items = next_range(array, ArraySpeed(0.001, 0.001, 4, in_vain=1))
    assert next_items == ItemRange(994, 999)
    remaining = (ItemRange(0, 10), ItemRange(20, 994), ItemRange(999, 1000))
    assert remove_range(array, next_items) == remaining
    assert next_range(array, ArraySpeed(0.001, 0.001, 4, in_vain=6)) == ItemRange(989, 994)
    small_array = task("t1", pending=(ItemRange(0, 10), ItemRange(998, 1000)))
    assert next_range(small_array, ArraySpeed(0.001, 0.001, 0, in_vain=99)) == ItemRange(998, 999)
    assert remove_range(small_array, ItemRange(998, 1000)) == (ItemRange(0, 10),)


def test_after_enough_failures_a_node_gets_no_range_while_others_work() -> None:
    assert is_unfit(1000, ArraySpeed(0.001, 0.001, 4, in_vain=5))
    assert not is_unfit(1000, ArraySpeed(0.001, 0.001, 4, in_vain=4)), "that may be the items"
    assert not is_unfit(1000, ArraySpeed(0.001, 0.001, 0, in_vain=5)), "somebody must do it"


class _Pieces(tuple[ItemRange, ...]):
    """Knows how often somebody went through all of them."""

    looks = 0

    def __iter__(self) -> Iterator[ItemRange]:
        type(self).looks += 1
        return super().__iter__()


def test_many_pieces_are_not_counted_for_each_node_anew() -> None:
    pieces = _Pieces(ItemRange(2 * number, 2 * number + 1) for number in range(1000))
    array = task("t1", pending=pieces, expected_seconds=1.0)
    live = RunningWork(Timetable(60.0))
    assignment = Assignment(array.id, NodeId("n1"), (), array.requirements, array.limits, 0, 0)
    live.expect(array, assignment, SchedulerAccount(array.account_id), 0.0)
    speeds = NodeSpeeds(live)
    progress = {NodeId(f"n{number}"): ArrayProgress(1.0) for number in range(64)}
    speeds.observe(array.id, {**progress, NodeId("slow"): ArrayProgress(1e6)})
    assert speeds.unfit(array) == {"slow"}
    assert _Pieces.looks == 1


def test_items_are_held_for_one_by_one() -> None:
    assert affordable_items(35, 3600, 10.0) == 3
    assert affordable_items(0, 0, 10.0) is None


@given(
    st.integers(1, 100_000),
    st.one_of(st.none(), st.floats(1e-6, 1e4)),
    st.one_of(st.none(), st.floats(1e-6, 1e4)),
    st.integers(0, 1000),
)
def test_a_range_is_never_empty_and_always_pending(
    left: int, item_seconds: float | None, here: float | None, workers: int
) -> None:
    array = task("t1", pending=(ItemRange(7, 7 + left),))
    next_items = next_range(array, ArraySpeed(item_seconds, here, workers))
    assert next_items.start == 7 and 1 <= len(next_items) <= left


def test_a_slow_node_does_not_delay_the_end_of_an_array() -> None:
    """Ten thousand items of 0.1 s on five nodes, one of them twenty times as slow."""
    speeds = {f"n{number}": 0.1 for number in range(4)} | {"slow": 2.0}
    array = task("t1", pending=(ItemRange(0, 10_000),))
    done, seconds, now = 0, 0.0, 0.0
    idle = list(speeds)
    live: list[tuple[float, str, int]] = []
    node_seconds: dict[str, float] = {}
    finished: dict[str, float] = {}
    while array.pending or live:
        for name in list(idle):
            pace = ArraySpeed(seconds / done if done else None, node_seconds.get(name), len(live))
            if not array.pending or is_unfit(pending_items(array), pace):
                continue
            next_items = next_range(array, pace)
            idle.remove(name)
            heapq.heappush(live, (now + len(next_items) * speeds[name], name, len(next_items)))
            array = task("t1", pending=remove_range(array, next_items))
        now, name, count = heapq.heappop(live)
        done, seconds = done + count, seconds + count * speeds[name]
        node_seconds[name], finished[name] = speeds[name], now
        idle.append(name)
    ideal = 10_000 / sum(1 / speed for speed in speeds.values())
    assert now <= ideal + 5.0
    assert finished["slow"] <= now
