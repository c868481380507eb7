"""Five thousand calls of a model, submitted one by one, and gathered as they come.

python examples/many_calls.py
python examples/many_calls.py 500

The model is loaded once on each node and stays in memory for the next calls. Use `submit` like
this when calls differ, come one after the other, or may each be cancelled or retried; `map` is
better when all inputs are known. It prints `5,000 calls: 2,512 texts are positive`, or so.
"""

import sys
from concurrent.futures import as_completed

import potluck

CALLS = 5_000
WORDS = ("good", "bad", "fine", "poor", "great", "awful", "nice", "dull", "lovely", "sad")
MODEL: dict[str, float] = {}


@potluck.task
def is_positive(text: str) -> bool:
    """Scores a text; the first call in an interpreter loads the model."""
    if not MODEL:
        MODEL.update({word: 1.0 if place % 2 == 0 else -1.0 for place, word in enumerate(WORDS)})
    return sum(MODEL.get(word, 0.0) for word in text.split()) > 0


def texts(number: int) -> list[str]:
    return [f"{WORDS[n % 10]} {WORDS[n // 10 % 10]} {WORDS[n // 7 % 10]}" for n in range(number)]


def main(number: int) -> None:
    futures = [is_positive.submit(text) for text in texts(number)]
    positive = sum(future.result() for future in as_completed(futures))
    print(f"{number:,} calls: {positive:,} texts are positive")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else CALLS)
