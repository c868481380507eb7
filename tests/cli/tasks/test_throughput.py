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


@pytest.mark.parametrize(("counts", "expected"), ROWS)
def test_throughput_texts(counts: list[int], expected: str) -> None:
    seconds = iter(range(len(counts)))
    pace = Throughput(lambda: float(next(seconds)))
    texts = [pace.update(ItemCounts(1000, 1000 - count, count, 0)) for count in counts]
    assert texts[-1] == expected


def test_old_progress_weighs_little() -> None:
    moments = iter([0.0, 100.0, 110.0])
    pace = Throughput(lambda: next(moments))
    for count in (0, 10):
        pace.update(ItemCounts(1000, 0, count, 0))
    assert pace.update(ItemCounts(1000, 0, 110, 0)).startswith(" · 10 a second")
