"""A right product passes; a wrong one does not, however small the mistake."""

from operator import mul

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potluck.decide.challenge import PRIME, is_product

CHANCE = [982_451_653, 7, 2_038_074_743]
LEFT = [[1, 2, 255], [0, 4, 5], [9, 8, 7]]
RIGHT = [[3, 1, 4], [1, 5, 9], [2, 6, 255]]


def times(left: list[list[int]], right: list[list[int]]) -> list[list[int]]:
    columns = list(zip(*right, strict=True))
    return [[sum(map(mul, row, column)) for column in columns] for row in left]


def test_the_product_is_recognised() -> None:
    assert is_product(LEFT, RIGHT, times(LEFT, RIGHT), CHANCE)


@given(st.integers(0, 2), st.integers(0, 2), st.integers(-(2**31), 2**31).filter(bool))
def test_one_wrong_number_is_noticed(row: int, column: int, difference: int) -> None:
    claimed = times(LEFT, RIGHT)
    claimed[row][column] = (claimed[row][column] + difference) % 2**32
    if claimed != times(LEFT, RIGHT):
        assert not is_product(LEFT, RIGHT, claimed, CHANCE)


@pytest.mark.parametrize("number", [PRIME, PRIME + 1, 2**32 - 1])
def test_a_number_that_only_looks_right_in_the_field_is_refused(number: int) -> None:
    zero = [[0] * 3] * 3
    assert is_product(zero, RIGHT, zero, CHANCE)
    assert not is_product(zero, RIGHT, [[number, 0, 0], *zero[1:]], CHANCE)
