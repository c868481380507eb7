"""The scheduler of two checkouts, measured in turns: `python -m bench.scheduler --against PATH`."""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parents[1]
# Of rates more is better, of costs less; a ratio above 1 always means that this checkout is faster.
RATES = (
    "decisions_per_s",
    "fill_decisions_per_s",
    "steady_decisions_per_s",
    "steady_with_reservations_per_s",
    "with_all_else_per_s",
)
COSTS = ("p99_us", "idle_round_ms", "idle_round_with_reservations_ms")


def compare(other: Path, turns: int, options: list[str]) -> dict[str, object]:
    """Each turn begins with the one that came last in the turn before."""
    here_runs: list[dict[str, float]] = []
    other_runs: list[dict[str, float]] = []
    for turn in range(turns):
        both = [(HERE, here_runs), (other, other_runs)]
        for checkout, runs in both if turn % 2 else both[::-1]:
            runs.append(_measure(checkout, options))
    pairs = list(zip(here_runs, other_runs, strict=True))
    measured = [name for name in RATES + COSTS if all(a[name] and b[name] for a, b in pairs)]
    ratios = {
        name: [a[name] / b[name] if name in RATES else b[name] / a[name] for a, b in pairs]
        for name in measured  # in a small pool there may be nothing to decide
    }
    return {
        "times_as_fast": {name: round(statistics.median(ratios[name]), 2) for name in ratios},
        "least": {name: round(min(ratios[name]), 2) for name in ratios},
        "most": {name: round(max(ratios[name]), 2) for name in ratios},
        "here": _medians(here_runs),
        "other": _medians(other_runs),
        "turns": turns,
        "has_same_decisions": len({run["digest"] for run in here_runs + other_runs}) == 1,
    }


def _measure(checkout: Path, options: list[str]) -> dict[str, float]:
    """Always with this bench; the scheduler is that of the checkout."""
    paths = os.pathsep.join([str(checkout / "src"), str(HERE)])
    done = subprocess.run(
        [sys.executable, "-m", "bench.scheduler", "--json", *options],
        cwd=HERE,
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _medians(runs: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(run[name] for run in runs) for name in (*RATES, *COSTS)}
