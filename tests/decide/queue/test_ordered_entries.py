"""A row gives out its tasks in the order of their places, in whichever order they came."""

from random import Random

import pytest

from potluck.decide.queue.task_groups import Entry, OrderedEntries
from tests.decide.builders import task


def entry(place: float, name: str) -> Entry:
    made = task(name)
    return place, made.id, made


@pytest.mark.parametrize("seed", range(20))
def test_the_first_is_always_the_one_with_the_least_place(seed: int) -> None:
    chance, row = Random(seed), OrderedEntries()
    known: list[Entry] = []
    for number in range(400):
        if known and chance.random() < 0.45:
            known.remove(min(known, key=lambda each: each[:2]))
            row.take()
        else:
            is_late = chance.random() < seed / 20
            place = chance.randint(0, 400) if is_late else float(number)
            known.append(entry(place, f"t{number:03}"))
            row.add(known[-1])
        assert row.first() == min(known, key=lambda each: each[:2], default=None)
        assert len(row) == len(known) == len(list(row.every(1)))


def test_one_with_the_same_place_stands_where_the_first_was() -> None:
    row = OrderedEntries()
    for each in (entry(2, "b"), entry(1, "a")):
        row.add(each)
    for name in ("a", "b"):
        first = row.first()
        assert first is not None and first[1] == name
        left = (first[0], first[1], task(name, priority=5))
        row.replace(left)
        assert row.first() is left
        row.take()
    assert row.first() is None


def test_what_is_swept_out_is_gone() -> None:
    row = OrderedEntries()
    for number in (3, 1, 4, 1, 5, 9, 2, 6):
        row.add(entry(number, f"t{number}"))
    row.keep(lambda each: each[0] > 3)
    places = []
    while first := row.first():
        places.append(first[0])
        row.take()
    assert places == [4, 5, 6, 9]
