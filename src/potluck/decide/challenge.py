"""Checks a matrix product without multiplying the matrices (Freivalds' algorithm).

With random numbers, a wrong product passes one round with a probability of one in two billion.
"""

from collections.abc import Sequence
from operator import mul

Matrix = Sequence[Sequence[int]]

# Larger than every number of a correct product.
PRIME = 2**31 - 1


def is_product(left: Matrix, right: Matrix, claimed: Matrix, chance: Sequence[int]) -> bool:
    """`chance` has one random number below PRIME per column."""
    if any(number >= PRIME for row in claimed for number in row):
        return False
    return _times(left, _times(right, chance)) == _times(claimed, chance)


def _times(matrix: Matrix, column: Sequence[int]) -> list[int]:
    return [sum(map(mul, row, column)) % PRIME for row in matrix]
