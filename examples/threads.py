"""Threads that each call a function and wait for its result, as a web server does.

python examples/threads.py
python examples/threads.py 8 200

64 threads share one stream of calls: what gathers while a request is under way goes with the next
one, and each thread gets its own result or its own error. It prints
`64 threads, 2,000 calls: the sum of all squares is 2,664,667,000` and how many calls a second.
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import potluck


@potluck.task
def square(number: int) -> int:
    return number * number


def call(number: int) -> int:
    """What a thread does for one request of its own."""
    return square.submit(number).result(timeout=60)


def main(threads: int, calls: int) -> None:
    call(0)  # the first call starts the interpreter
    began = time.perf_counter()
    with ThreadPoolExecutor(threads) as executor:
        total = sum(executor.map(call, range(calls)))
    rate = calls / (time.perf_counter() - began)
    print(f"{threads} threads, {calls:,} calls: the sum of all squares is {total:,}")
    print(f"{rate:,.0f} calls a second", file=sys.stderr)


if __name__ == "__main__":
    words = [int(word) for word in sys.argv[1:]]
    main(words[0] if words else 64, words[1] if len(words) > 1 else 2_000)
