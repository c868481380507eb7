"""Runs many seeds in parallel processes, each with its own PostgreSQL."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import IO

import msgspec
from msgspec import Struct

from verification.faults.history import HistoryOutcome
from verification.faults.history_plan import HistoryPlan
from verification.faults.worker import WorkerSettings

_ROOT = Path(__file__).parents[2]


class FailedHistory(Struct, frozen=True):
    """A seed with violations; `python -m verification.faults --seed` replays it."""

    seed: int
    violations: list[str]


class RunSummary(Struct, frozen=True):
    """The outcome of all seeds."""

    seeds: int
    steps: int
    violations: int
    tasks: int
    faults: dict[str, int]
    failures: list[FailedHistory]
    nodes: int
    steps_per_seed: int
    seconds: float
    steps_per_second: float
    next_seed: int | None  # to continue with, if the run was interrupted


class RunTally:
    """The outcome of the seeds so far."""

    def __init__(self, seeds: range, plan: HistoryPlan) -> None:
        self._all = seeds
        self._plan = plan
        self._begun = time.monotonic()
        self._missing = set(seeds)
        self._faults: Counter[str] = Counter()
        self._failures: list[FailedHistory] = []
        self._steps = self._tasks = 0

    def count(self, outcome: HistoryOutcome) -> None:
        self._missing.remove(outcome.seed)
        self._faults.update(outcome.faults)
        self._steps += outcome.steps
        self._tasks += outcome.tasks
        if outcome.violations:
            self._failures.append(FailedHistory(outcome.seed, outcome.violations))

    def summary(self) -> RunSummary:
        seconds = time.monotonic() - self._begun
        return RunSummary(
            seeds=len(self._all) - len(self._missing),
            steps=self._steps,
            violations=sum(len(failure.violations) for failure in self._failures),
            tasks=self._tasks,
            faults=dict(sorted(self._faults.items())),
            failures=sorted(self._failures, key=lambda failure: failure.seed),
            nodes=self._plan.nodes,
            steps_per_seed=self._plan.steps,
            seconds=round(seconds, 1),
            steps_per_second=round(self._steps / seconds, 1),
            next_seed=min(self._missing, default=None),
        )


def run_many(
    seeds: range,
    settings: WorkerSettings,
    *,
    workers: int,
    seen: Callable[[HistoryOutcome, RunTally], None] = lambda _outcome, _tally: None,
) -> RunSummary:
    """Runs every seed. When interrupted, returns the summary so far."""
    tally = RunTally(seeds, settings.plan)
    try:
        with closing(_outcomes(seeds, settings, min(workers, len(seeds)))) as outcomes:
            for outcome in outcomes:
                tally.count(outcome)
                seen(outcome, tally)
    except KeyboardInterrupt:
        pass
    return tally.summary()


def _outcomes(seeds: range, settings: WorkerSettings, workers: int) -> Generator[HistoryOutcome]:
    """If a worker dies, its seed has failed, and a new worker continues with the next seed."""
    todo = iter(seeds)
    with DefaultSelector() as selector, ExitStack() as stack:
        for _, seed in zip(range(workers), todo, strict=False):
            _Worker(settings, selector, stack).begin(seed)
        while selector.get_map():
            for key, _ in selector.select():
                worker: _Worker = key.data
                yield worker.outcome()
                following = next(todo, None)
                if following is None or worker.is_gone:
                    worker.end()
                if following is not None:
                    (_Worker(settings, selector, stack) if worker.is_gone else worker).begin(
                        following
                    )


class _Worker:
    """A process that runs one seed at a time."""

    def __init__(
        self, settings: WorkerSettings, selector: DefaultSelector, stack: ExitStack
    ) -> None:
        self._settings = settings
        self._selector = selector
        self._process = stack.enter_context(_start(settings))
        stack.callback(self._process.kill)
        self._seed = -1
        self._begun = 0.0
        self.is_gone = False
        selector.register(self._answers, EVENT_READ, self)

    def begin(self, seed: int) -> None:
        self._seed = seed
        self._begun = time.monotonic()
        with suppress(BrokenPipeError):  # then there will be no answer
            self._requests.write(f"{seed}\n".encode())
            self._requests.flush()

    def outcome(self) -> HistoryOutcome:
        line = self._answers.readline()
        if line:
            return msgspec.json.decode(line, type=HistoryOutcome)
        self.is_gone = True
        return HistoryOutcome(self._seed, 0, [self._why_silent()], {}, 0, 0.0)

    def end(self) -> None:
        self._selector.unregister(self._answers)
        with suppress(BrokenPipeError):
            self._requests.close()

    def _why_silent(self) -> str:
        if time.monotonic() - self._begun >= self._settings.seconds:
            return f"it had not ended after {self._settings.seconds:g} s"
        return f"its process ended with status {self._process.wait()}"

    @property
    def _requests(self) -> IO[bytes]:
        assert self._process.stdin is not None, "it is a pipe"
        return self._process.stdin

    @property
    def _answers(self) -> IO[bytes]:
        assert self._process.stdout is not None, "it is a pipe"
        return self._process.stdout


def _start(settings: WorkerSettings) -> "subprocess.Popen[bytes]":
    """In its own session, so that Ctrl-C in a terminal reaches only this process."""
    return subprocess.Popen(
        [sys.executable, "-m", "verification.faults.worker", msgspec.json.encode(settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=_ROOT,
        start_new_session=True,
    )
