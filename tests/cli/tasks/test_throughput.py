"""How fast an array goes, in words."""

import pytest

from potluck.cli.tasks.watch import Throughput
from potluck.wire.consumer import ItemCounts

ROWS = [
    # (done by each second, the last words)
    ([0, 0], ""),
    ([0, 20], " · 20 a second · 49 s left"),
    ([0, 1, 3], " · 1.5 a second · 11 min 4 s left"),
    ([0] + [0] * 59 + [2], " · 2.0 a minute · 8 h 19 min left"),
]


@pytest.mark.parametrize(("done", "words"), ROWS)
def test_words(done: list[int], words: str) -> None:
    seconds = iter(range(len(done)))
    pace = Throughput(lambda: float(next(seconds)))
    told = [pace.update(ItemCounts(1000, 1000 - each, each, 0)) for each in done]
    assert told[-1] == words


def test_old_progress_weighs_little() -> None:
    moments = iter([0.0, 100.0, 110.0])
    pace = Throughput(lambda: next(moments))
    for each in (0, 10):
        pace.update(ItemCounts(1000, 0, each, 0))
    assert pace.update(ItemCounts(1000, 0, 110, 0)).startswith(" · 10 a second")
