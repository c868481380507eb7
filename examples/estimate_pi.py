"""A function that runs elsewhere, ten thousand times: throws darts, and estimates pi from them.

python examples/estimate_pi.py, with the Python that Potluck is installed for
"""

import sys

import potluck

DARTS = 1_000


@potluck.task(ram="64MiB")
def hits(seed: int) -> int:
    """How many of a thousand darts land within the circle."""
    import random

    numbers = random.Random(seed)
    return sum(numbers.random() ** 2 + numbers.random() ** 2 <= 1 for _ in range(DARTS))


if __name__ == "__main__":
    rounds = int(sys.argv[1]) if sys.argv[1:] else 10_000
    total = sum(hits.map(range(rounds), ordered=False))
    print(f"{rounds * DARTS:,} darts: pi is about {4 * total / rounds / DARTS:.4f}")
