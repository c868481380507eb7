"""Which rooms reach a level is always what looking at each of them would say."""

from random import Random

import pytest

from potluck.decide.pool.bitmap_index import EVERY, MOST_LEVELS, ThresholdBitmap, as_bits, slots_of


@pytest.mark.parametrize("seed", range(10))
def test_the_bits_are_those_of_who_has_at_least_so_much(seed: int) -> None:
    rng, levels = Random(seed), ThresholdBitmap()
    values: dict[int, int] = {}
    for _ in range(300):
        slot, value = rng.randrange(200), rng.randint(0, 20)
        values[slot] = value
        levels.write(slot, value)
        threshold = rng.randint(1, 20)
        assert levels.at_least(threshold) == sum(
            1 << s for s, v in values.items() if v >= threshold
        )
    assert levels.at_least(0) == EVERY


def test_with_very_many_levels_the_oldest_are_given_up_and_all_answers_stay_true() -> None:
    rng, levels = Random(1), ThresholdBitmap()
    values = {slot: 20 * slot for slot in range(50)}
    for slot, value in values.items():
        levels.write(slot, value)
    for threshold in [*range(1, MOST_LEVELS + 200), *rng.choices(range(1, 1000), k=500)]:
        assert levels.at_least(threshold) == sum(
            1 << s for s, v in values.items() if v >= threshold
        )
        slot = rng.randrange(50)
        values[slot] = rng.randrange(1000)
        levels.write(slot, values[slot])
    assert levels.count == MOST_LEVELS


@pytest.mark.parametrize("slots", [[], [0], [3, 64, 255, 256, 1000, 70_000]])
def test_bits_are_slots_and_slots_are_bits(slots: list[int]) -> None:
    assert list(slots_of(as_bits(slots))) == slots[::-1]
