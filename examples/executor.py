"""Code that takes an executor runs on the pool: only the line that creates it changes.

python examples/executor.py                  (on the pool)
python examples/executor.py --here           (the same on this machine's own processors)

It counts primes in ten ranges, reports each range when it is done, and prints
`78,498 primes below 1,000,000`. An executor takes the options of @potluck.task:
potluck.Executor(gpu=True, dependencies=["torch"]).
"""

import sys
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed

import potluck

LIMIT, PARTS = 1_000_000, 10


def primes_between(begin: int, end: int) -> int:
    """The number of primes in the range, by trial division."""
    return sum(
        number > 1 and all(number % each for each in range(2, int(number**0.5) + 1))
        for number in range(begin, end)
    )


def count(executor: Executor, limit: int) -> int:
    """Your existing code: it works with any executor."""
    step = limit // PARTS
    asked = {
        executor.submit(primes_between, begin, begin + step): begin
        for begin in range(0, limit, step)
    }
    total = 0
    for future in as_completed(asked):
        print(f"{asked[future]:>9,} … {future.result():,} primes", file=sys.stderr)
        total += future.result()
    return total


def main(words: list[str]) -> None:
    is_here = "--here" in words
    limit = next((int(word) for word in words if word.isdigit()), LIMIT)
    with ProcessPoolExecutor() if is_here else potluck.Executor() as executor:
        print(f"{count(executor, limit):,} primes below {limit:,}")


if __name__ == "__main__":
    main(sys.argv[1:])
