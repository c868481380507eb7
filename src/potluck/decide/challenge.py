"""Whether a matrix is the product of two others, without multiplying them (Freivalds).

With numbers chosen by chance, a wrong product passes one round with a probability of one in two
thousand million, whoever made it.
"""

from collections.abc import Sequence
from operator import mul

Matrix = Sequence[Sequence[int]]

# A prime above every number of an honest product: within it, wrong is wrong.
PRIME = 2**31 - 1


def is_product(left: Matrix, right: Matrix, claimed: Matrix, chance: Sequence[int]) -> bool:
    """`chance` are numbers below PRIME, as many as there are columns."""
    if any(number >= PRIME for row in claimed for number in row):
        return False
    return _times(left, _times(right, chance)) == _times(claimed, chance)


def _times(matrix: Matrix, column: Sequence[int]) -> list[int]:
    return [sum(map(mul, row, column)) % PRIME for row in matrix]
