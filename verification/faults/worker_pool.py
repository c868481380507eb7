"""Many seeds, on all cores, each of them replayable."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, suppress
from selectors import EVENT_READ, DefaultSelector
from typing import IO

import msgspec
from msgspec import Struct

from verification.faults.history_plan import Plan
from verification.faults.history import Outcome
from verification.faults.worker import Order


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
    next_seed: int | None  # where to go on, if it was stopped


class Tally:
    """What the seeds so far came to."""

    def __init__(self, seeds: range, plan: Plan) -> None:
        self._all = seeds
        self._plan = plan
        self._begun = time.monotonic()
        self._missing = set(seeds)
        self._faults: Counter[str] = Counter()
        self._failures: list[Failure] = []
        self._steps = self._tasks = 0

    def count(self, outcome: Outcome) -> None:
        self._missing.remove(outcome.seed)
        self._faults.update(outcome.faults)
        self._steps += outcome.steps
        self._tasks += outcome.tasks
        if outcome.violations:
            self._failures.append(Failure(outcome.seed, outcome.violations))

    def summary(self) -> Summary:
        seconds = time.monotonic() - self._begun
        return Summary(
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
    order: Order,
    *,
    workers: int,
    seen: Callable[[Outcome, Tally], None] = lambda _outcome, _tally: None,
) -> Summary:
    """Every seed, in its turn. Who interrupts it gets what there is so far."""
    tally = Tally(seeds, order.plan)
    try:
        with closing(_outcomes(seeds, order, min(workers, len(seeds)))) as outcomes:
            for outcome in outcomes:
                tally.count(outcome)
                seen(outcome, tally)
    except KeyboardInterrupt:
        pass
    return tally.summary()


def _outcomes(seeds: range, order: Order, workers: int) -> Generator[Outcome]:
    """A seed whose worker dies over it is a failure, and another worker goes on with the next."""
    todo = iter(seeds)
    with DefaultSelector() as telling, ExitStack() as crew:
        for _, seed in zip(range(workers), todo, strict=False):
            _Worker(order, telling, crew).begin(seed)
        while telling.get_map():
            for key, _ in telling.select():
                worker: _Worker = key.data
                yield worker.outcome()
                following = next(todo, None)
                if following is None or worker.is_gone:
                    worker.end()
                if following is not None:
                    (_Worker(order, telling, crew) if worker.is_gone else worker).begin(following)


class _Worker:
    """A process that runs one seed at a time."""

    def __init__(self, order: Order, telling: DefaultSelector, crew: ExitStack) -> None:
        self._order = order
        self._telling = telling
        self._process = crew.enter_context(_start(order))
        crew.callback(self._process.kill)
        self._seed = -1
        self._begun = 0.0
        self.is_gone = False
        telling.register(self._answers, EVENT_READ, self)

    def begin(self, seed: int) -> None:
        self._seed = seed
        self._begun = time.monotonic()
        with suppress(BrokenPipeError):  # then there will be no answer
            self._orders.write(f"{seed}\n".encode())
            self._orders.flush()

    def outcome(self) -> Outcome:
        line = self._answers.readline()
        if line:
            return msgspec.json.decode(line, type=Outcome)
        self.is_gone = True
        return Outcome(self._seed, 0, [self._why_silent()], {}, 0, 0.0)

    def end(self) -> None:
        self._telling.unregister(self._answers)
        with suppress(BrokenPipeError):
            self._orders.close()

    def _why_silent(self) -> str:
        if time.monotonic() - self._begun >= self._order.seconds:
            return f"it had not come to its end after {self._order.seconds:g} s"
        return f"its process ended with status {self._process.wait()}"

    @property
    def _orders(self) -> IO[bytes]:
        assert self._process.stdin is not None, "it is a pipe"
        return self._process.stdin

    @property
    def _answers(self) -> IO[bytes]:
        assert self._process.stdout is not None, "it is a pipe"
        return self._process.stdout


def _start(order: Order) -> "subprocess.Popen[bytes]":
    """In a session of its own: who interrupts us in a terminal does not mean each of them."""
    return subprocess.Popen(
        [sys.executable, "-m", "verification.faults.worker", msgspec.json.encode(order)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        start_new_session=True,
    )
