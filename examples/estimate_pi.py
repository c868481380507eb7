"""A map with progress: a function that runs on the pool ten thousand times. It throws darts, and
estimates pi from those that land within the circle.

python examples/estimate_pi.py           (with the Python that Potluck is installed for)
python examples/estimate_pi.py 500       (fewer rounds)

While it runs, a line shows the progress; then it prints `10,000,000 darts: pi is about 3.1415`.
The function is sent as a pickle, its results are returned as data; see docs/functions.md.
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


def main(rounds: int) -> None:
    total = 0
    # In the order of completion, so that slow nodes do not delay the others.
    for found in hits.map(range(rounds), ordered=False):
        total += found
    print(f"{rounds * DARTS:,} darts: pi is about {4 * total / rounds / DARTS:.4f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 10_000)
