"""How many small items a second `map` does, from the call to the last result.

    make bench-map
    python -m bench.map --items 10000 --json

Starts PostgreSQL, a server and a provider with their usual settings on loopback; the function runs
in the provider's sandbox, and every result is durable before it is told. The first map is cold: it
starts the interpreter. `items_per_s` is the median of the maps after it, `cold_items_per_s` that of
the first.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import potluck
from bench.started import whole_pool

LEAST_ITEMS_PER_S = 50_000.0


def nothing(number: int) -> int:
    return number


def measure(items: int, rounds: int, directory: Path) -> dict[str, object]:
    with whole_pool(directory) as pool:
        function = potluck.task(client=pool.client)(nothing)
        seconds = []
        for _ in range(1 + rounds):
            began = time.perf_counter()
            results = list(function.map(range(items)))
            seconds.append(time.perf_counter() - began)
            assert results == list(range(items))
    rates = [items / each for each in seconds]
    return {
        "items": items,
        "items_per_s": round(statistics.median(rates[1:])),
        "best_items_per_s": round(max(rates[1:])),
        "cold_items_per_s": round(rates[0]),
        "least_items_per_s": LEAST_ITEMS_PER_S,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="How many items a second a map does.")
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="which is what it prints anyway")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps(measure(given.items, given.rounds, Path(directory)), indent=2))


if __name__ == "__main__":
    main()
