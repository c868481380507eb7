"""`python -m verification.faults`: runs fault histories of the server's own code.

python -m verification.faults --seeds 200
python -m verification.faults --seeds 1000-1999 --json
python -m verification.faults --seed 42 --trace
"""

import argparse
import os
import re
import sys
import time
from collections.abc import Callable

import msgspec

from verification.faults.history import HistoryOutcome
from verification.faults.history_plan import HistoryPlan
from verification.faults.worker import WorkerSettings
from verification.faults.worker_pool import RunSummary, RunTally, run_many

_PLAN = HistoryPlan()
_SEEDS = range(100)
_PROGRESS_SECONDS = 30.0


def main() -> int:
    options = _parse()
    plan = HistoryPlan(nodes=options.nodes, steps=options.steps)
    seeds = options.seeds or (
        _SEEDS if options.seed is None else range(options.seed, options.seed + 1)
    )
    progress = _Progress(len(seeds), plan, is_quiet=options.trace)
    settings = WorkerSettings(plan, options.seconds, options.trace)
    summary = run_many(seeds, settings, workers=options.workers, seen=progress.see)
    print(msgspec.json.encode(summary).decode() if options.json else _text(summary))
    if summary.next_seed is not None:
        _print_error(f"Stopped. Continue with: --seeds {summary.next_seed}-{seeds[-1]}")
        return 130
    return 1 if summary.failures else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m verification.faults",
        description="Run fault histories, and check the invariants after every step.",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--seeds", type=_seeds, help="number of seeds, or first and last: 1000-1999")
    which.add_argument("--seed", type=_from(0), help="a single seed")
    parser.add_argument("--nodes", type=_from(1, 100_000), default=_PLAN.nodes)
    parser.add_argument(
        "--steps", type=_from(1, 1_000_000), default=_PLAN.steps,
        help="transactions with faults before everything is repaired",
    )  # fmt: skip
    parser.add_argument("--workers", type=_from(1, 256), default=os.cpu_count() or 1)
    parser.add_argument(
        "--seconds", type=float, default=600.0, help="time limit of a history, which then fails"
    )
    parser.add_argument("--trace", action="store_true", help="print each history to stderr")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _seeds(text: str) -> range:
    found = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number or a range such as 42-51")
    seeds = range(int(found[1])) if found[2] is None else range(int(found[1]), int(found[2]) + 1)
    if not seeds:
        raise argparse.ArgumentTypeError(f"{text!r} contains no seed")
    return seeds


def _from(least: int, most: int = 10**9) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not between {least} and {most}")
        return int(text)

    return number


class _Progress:
    """Prints failures immediately and progress from time to time, to stderr."""

    def __init__(self, seeds: int, plan: HistoryPlan, *, is_quiet: bool) -> None:
        self._seeds = seeds
        self._plan = plan
        self._is_quiet = is_quiet  # with a trace, which must be reproducible
        self._next_at = time.monotonic() + _PROGRESS_SECONDS

    def see(self, outcome: HistoryOutcome, tally: RunTally) -> None:
        if outcome.violations:
            _print_error(
                f"Seed {outcome.seed}: {outcome.violations[0]}\n"
                f"Replay it with: python -m verification.faults --seed {outcome.seed}"
                f" --nodes {self._plan.nodes} --steps {self._plan.steps} --trace"
            )
        if time.monotonic() >= self._next_at and not self._is_quiet:
            self._next_at = time.monotonic() + _PROGRESS_SECONDS
            summary = tally.summary()
            left_minutes = (self._seeds - summary.seeds) * summary.seconds / summary.seeds / 60
            _print_error(f"{_text(summary)} About {left_minutes:.0f} min left.")


def _text(summary: RunSummary) -> str:
    return (
        f"{summary.seeds} histories, {summary.steps} steps, {summary.tasks} tasks:"
        f" {summary.violations} violations, {summary.steps_per_second:.0f} steps a second."
    )


def _print_error(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
