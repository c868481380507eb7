"""Many seeds, on all cores, each of them replayable."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from queue import SimpleQueue
from threading import Thread

import msgspec
from msgspec import Struct

from potluck.simulate.faults.run import Outcome
from potluck.simulate.faults.worker import Order
from potluck.simulate.faults.world import Plan


class Failure(Struct, frozen=True):
    """A seed that broke something; `potluck simulate faults --seed` replays it."""

    seed: int
    violations: list[str]


class Summary(Struct, frozen=True):
    """What all seeds came to."""

    seeds: int
    steps: int
    violations: int
    tasks: int
    faults: dict[str, int]
    failures: list[Failure]
    nodes: int
    steps_per_seed: int
    seconds: float
    steps_per_second: float


def run_many(
    first: int,
    count: int,
    plan: Plan,
    *,
    workers: int,
    is_traced: bool = False,
    seen: Callable[[Outcome], None] = lambda _: None,
) -> Summary:
    """Every seed from the first on. A worker that dies is a failure of all that it did not tell."""
    begun = time.monotonic()
    outcomes = []
    for outcome in _outcomes(first, count, plan, min(workers, count), is_traced):
        outcomes.append(outcome)
        seen(outcome)
    return _summary(outcomes, first, count, plan, time.monotonic() - begun)


def _outcomes(
    first: int, count: int, plan: Plan, workers: int, is_traced: bool
) -> Iterator[Outcome]:
    with ExitStack() as running:
        told: SimpleQueue[bytes | None] = SimpleQueue()
        for place in range(workers):
            mine = len(range(place, count, workers))
            order = Order(first + place, mine, workers, plan, is_traced)
            process = running.enter_context(_start(order))
            running.callback(process.kill)
            Thread(target=_read, args=(process, told), daemon=True).start()
        silent = 0
        while silent < workers:
            line = told.get()
            silent += line is None
            if line is not None:
                yield msgspec.json.decode(line, type=Outcome)


def _start(order: Order) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "potluck.simulate.faults.worker", msgspec.json.encode(order)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )


def _read(process: "subprocess.Popen[bytes]", told: "SimpleQueue[bytes | None]") -> None:
    assert process.stdout is not None, "it is a pipe"
    for line in process.stdout:
        told.put(line)
    told.put(None)


def _summary(
    outcomes: list[Outcome], first: int, count: int, plan: Plan, seconds: float
) -> Summary:
    silent = set(range(first, first + count)) - {outcome.seed for outcome in outcomes}
    failures = [Failure(each.seed, each.violations) for each in outcomes if each.violations]
    failures += [Failure(seed, ["nobody knows how it ended"]) for seed in sorted(silent)[:10]]
    faults: Counter[str] = Counter()
    for outcome in outcomes:
        faults.update(outcome.faults)
    steps = sum(outcome.steps for outcome in outcomes)
    return Summary(
        seeds=len(outcomes),
        steps=steps,
        violations=sum(len(failure.violations) for failure in failures),
        tasks=sum(outcome.tasks for outcome in outcomes),
        faults=dict(sorted(faults.items())),
        failures=sorted(failures, key=lambda failure: failure.seed),
        nodes=plan.nodes,
        steps_per_seed=plan.steps,
        seconds=round(seconds, 1),
        steps_per_second=round(steps / seconds, 1),
    )
