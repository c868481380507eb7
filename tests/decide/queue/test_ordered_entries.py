"""A row gives out its tasks in the order of their places, in whichever order they came."""

from random import Random

import pytest

from potluck.decide.queue.task_groups import Entry, OrderedEntries
from tests.decide.builders import task


def entry(place: float, name: str) -> Entry:
    waiting_task = task(name)
    return place, waiting_task.id, waiting_task


@pytest.mark.parametrize("seed", range(20))
def test_the_first_is_always_the_one_with_the_least_place(seed: int) -> None:
    rng, row = Random(seed), OrderedEntries()
    entries: list[Entry] = []
    for number in range(400):
        if entries and rng.random() < 0.45:
            entries.remove(min(entries, key=lambda item: item[:2]))
            row.take()
        else:
            is_late = rng.random() < seed / 20
            place = rng.randint(0, 400) if is_late else float(number)
            entries.append(entry(place, f"t{number:03}"))
            row.add(entries[-1])
        assert row.first() == min(entries, key=lambda item: item[:2], default=None)
        assert len(row) == len(entries) == len(list(row.every(1)))


def test_one_with_the_same_place_stands_where_the_first_was() -> None:
    row = OrderedEntries()
    for item in (entry(2, "b"), entry(1, "a")):
        row.add(item)
    for name in ("a", "b"):
        first = row.first()
        assert first is not None and first[1] == name
        replacement = (first[0], first[1], task(name, priority=5))
        row.replace(replacement)
        assert row.first() is replacement
        row.take()
    assert row.first() is None


def test_entries_that_are_filtered_out_are_gone() -> None:
    row = OrderedEntries()
    for number in (3, 1, 4, 1, 5, 9, 2, 6):
        row.add(entry(number, f"t{number}"))
    row.keep(lambda item: item[0] > 3)
    places = []
    while first := row.first():
        places.append(first[0])
        row.take()
    assert places == [4, 5, 6, 9]
