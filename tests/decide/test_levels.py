"""Which rooms reach a level is always what looking at each of them would say."""

from random import Random

import pytest

from potluck.decide.pool.levels import EVERY, MOST_LEVELS, Levels


@pytest.mark.parametrize("seed", range(10))
def test_the_bits_are_those_of_who_has_at_least_so_much(seed: int) -> None:
    chance, levels = Random(seed), Levels()
    values: dict[int, int] = {}
    for _ in range(300):
        slot, value = chance.randrange(200), chance.randint(0, 20)
        values[slot] = value
        levels.write(slot, value)
        asked = chance.randint(1, 20)
        assert levels.at_least(asked) == sum(1 << s for s, v in values.items() if v >= asked)
    assert levels.at_least(0) == EVERY


def test_with_very_many_levels_the_answer_is_too_large_and_never_too_small() -> None:
    levels = Levels()
    for slot in range(50):
        levels.write(slot, 20 * slot)
    for asked in range(1, MOST_LEVELS + 200):
        found = levels.at_least(asked)
        assert all(found >> slot & 1 for slot in range(50) if 20 * slot >= asked)
    levels.write(49, 0)
    assert not levels.at_least(900) >> 49 & 1, "also a level that stands for others is kept true"
