"""How many decisions the scheduler takes in a second: `python -m bench.scheduler --json`.

A decision is all that `plan` does: whose turn it is, which node and devices, and taking them. The
pool is a mixture of node shapes, the tasks are of many classes (fractions, whole devices, several,
none at all; some ask for a model) and of several accounts. First an empty pool is filled, then it
is kept full for a while: a part of what runs ends, each on its own, so that no two nodes look
alike, and what waits takes the room. Then the same again when tasks have waited for long and
devices are kept for them. Some decisions, in the midst of the others, are made one by one, a round
for each: `p99_us` is of these. Rounds in which nothing could be placed count like all others. One
process, one core, and the time is what it had of that core: what else the machine does counts only
as far as it slows the core down.

`--against PATH` measures another checkout too, in turns with this one, each in processes of its
own, and gives the medians of both and of the ratios, turn by turn: a busy machine slows both alike.
`has_same_decisions` says whether they decided the same, bit for bit.
"""

import argparse
import gc
import hashlib
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec
from msgspec import Struct

from bench.scheduler_turns import compare
from potluck.decide.order import ORDERS
from potluck.decide.placement import PLACEMENTS
from potluck.decide.scheduler import Scheduler, SchedulerPlan
from potluck.decide.types import (
    AccountShare,
    Assignment,
    FreeDevice,
    FreeNode,
    RunningAttempt,
    WaitingTask,
)
from potluck.model.device import DeviceKind
from potluck.model.ids import AccountId, AttemptId, DeviceId, NodeId, TaskId
from potluck.model.task import GIB, Limits, Requirements

NOW = 1_900_000_000.0
LIMITS = Limits()
# GPUs, cores, GiB of memory, model, and how many of such nodes there are.
SHAPES = [
    (8, 96, 384, "G2", 45),
    (8, 128, 768, "G3", 4),
    (2, 104, 512, "T4", 32),
    (4, 96, 384, "T4", 2),
    (2, 16, 120, "P100", 9),
    (2, 64, 256, "P100", 2),
    (4, 32, 128, "V100", 3),
    (8, 96, 768, "V100-32", 2),
    (1, 8, 32, "V100", 2),
]
# Devices, thousandths of each (None: whole), and how many of such tasks there are.
SIZES = [
    *((1, milli, 3) for milli in (50, 110, 160, 220, 230, 320, 370, 460, 550, 590, 650)),
    *((1, 470, 8), (1, 810, 12), (1, None, 46), (2, None, 2), (4, None, 2), (8, None, 3)),
    (0, None, 13),
]
CORES_OF_A_GPU = (3, 4, 6, 8, 9, 11, 12, 16)
MODELS = ("G2", "T4", "V100", "P100|V100")


# Decisions that are made one by one each time the pool is filled again.
SINGLES = 50
A_MINUTE = 61.0  # after it what is kept for whom is laid out anew


class Rounds(Struct):
    """What was measured: rounds of plan, and all that it took to feed them."""

    seconds: float = 0.0
    decisions: int = 0
    whole_seconds: float = 0.0
    singles: list[float] = []  # the seconds of rounds with one decision each

    @property
    def each_second(self) -> int:
        return round(self.decisions / self.seconds) if self.decisions else 0


class Bench:
    def __init__(self, gpus: int, tasks: int, accounts: int, placement: str, order: str) -> None:
        self._chance = Random(1)
        self._scheduler = Scheduler(ORDERS[order](), PLACEMENTS[placement]())
        self._accounts = [AccountId(f"account_{number:03}") for number in range(accounts)]
        self.classes, self._weights = _classes(Random(2))
        self.nodes = list(_nodes(gpus, Random(3)))
        self._waiting = tasks
        self._numbers = 0
        self._now = NOW
        self._running: list[RunningAttempt] = []
        self._account_of: dict[TaskId, AccountId] = {}
        self._decided = hashlib.sha256()

    @property
    def digest(self) -> str:
        """Equal only if all decisions were."""
        return self._decided.hexdigest()[:16]

    def load(self) -> None:
        for node in self.nodes:
            self._scheduler.put_node(node)
        for account_id in self._accounts:
            self._scheduler.put_account(AccountShare(account_id))
        self._put_tasks(self._waiting)

    def fill(self, most: int) -> Rounds:
        rounds = Rounds()
        self._singles(rounds)
        while (made := self._round(rounds, most)).assignments:
            self._put_tasks(len(made.assignments))
        return rounds

    def keep_full(self, rounds_count: int, part: float, most: int, moves: float = 0.0) -> Rounds:
        """Each time so much of what runs ends, after so many seconds."""
        rounds = Rounds()
        for _ in range(rounds_count):
            self._now += moves
            began = time.process_time()
            self._end(max(1, round(part * len(self._running))))
            rounds.whole_seconds += time.process_time() - began
            self._singles(rounds)
            while (made := self._round(rounds, most)).assignments:
                self._put_tasks(len(made.assignments))
        return rounds

    def wait(self, seconds: float) -> None:
        """All that waits grows old."""
        self._now += seconds

    def idle(self, rounds_count: int) -> list[float]:
        """Nothing has changed, and all waits."""
        while self._plan(1000).assignments:
            pass
        seconds = []
        for _ in range(rounds_count):
            began = time.process_time()
            made = self._plan(1000)
            seconds.append(time.process_time() - began)
            assert not made.assignments
        return seconds

    def _singles(self, rounds: Rounds) -> None:
        """After a few rounds, in which those that had found no room are looked at again."""
        for _ in range(3):
            self._put_tasks(len(self._round(rounds, SINGLES).assignments))
        for _ in range(SINGLES):
            began = time.process_time()
            made = self._plan(1)
            rounds.singles.append(time.process_time() - began)
            self._apply(made)
            self._put_tasks(len(made.assignments))

    def _round(self, rounds: Rounds, most: int) -> SchedulerPlan:
        began = time.process_time()
        made = self._plan(most)
        planned = time.process_time()
        rounds.seconds += planned - began
        rounds.decisions += len(made.assignments)
        self._apply(made)
        rounds.whole_seconds += time.process_time() - began
        return made

    def _plan(self, most: int) -> SchedulerPlan:
        self._now += 0.1
        return self._scheduler.plan(self._now, most)

    def _apply(self, made: SchedulerPlan) -> None:
        self._decided.update(msgspec.json.encode([_decided(each) for each in made.assignments]))
        for given in made.assignments:
            attempt = _attempt(given, self._account_of.pop(given.task_id), self._now + 3600)
            self._scheduler.put_running(attempt, self._now)
            self._running.append(attempt)

    def _end(self, count: int) -> None:
        for _ in range(min(count, len(self._running))):
            last = self._running.pop()
            if self._running:
                place = self._chance.randrange(len(self._running))
                last, self._running[place] = self._running[place], last
            self._scheduler.give(last, self._now)

    def _put_tasks(self, count: int) -> None:
        chosen = self._chance.choices(self.classes, self._weights, k=count)
        for requirements in chosen:
            self._numbers += 1
            task_id = TaskId(f"task_{self._numbers:09}")
            account_id = self._chance.choice(self._accounts)
            self._account_of[task_id] = account_id
            self._scheduler.put_task(
                WaitingTask(
                    id=task_id,
                    account_id=account_id,
                    requirements=requirements,
                    limits=LIMITS,
                    priority=0,
                    submitted_at=self._now,
                )
            )


def _classes(chance: Random) -> tuple[list[Requirements], list[float]]:
    found: dict[Requirements, float] = {}
    for count, milli, share in SIZES:
        variants = 12
        for number in range(variants):
            gpus = count * (milli or 1000) / 1000
            ratio = chance.choice(CORES_OF_A_GPU)
            cores = max(1, round(ratio * (gpus or chance.choice((0.5, 1, 2)))))
            model = chance.choice(MODELS) if number == 0 and 0 < count < 4 else None
            wanted = Requirements(
                device_kind=DeviceKind.GPU if count else DeviceKind.CPU,
                device_count=max(1, count),
                device_milli=milli,
                device_model=model,
                cores=cores,
                memory_bytes=cores * chance.choice((2, 4, 4, 5)) * GIB,
                disk_bytes=GIB,
            )
            found[wanted] = found.get(wanted, 0.0) + share / (1 + number)
    return list(found), list(found.values())


def _nodes(gpus: int, chance: Random) -> Iterator[FreeNode]:
    shapes = [shape[:4] for shape in SHAPES]
    weights = [shape[4] for shape in SHAPES]
    number = 0
    while gpus > 0:
        count, cores, memory_gib, model = chance.choices(shapes, weights)[0]
        gpus -= count
        number += 1
        yield _node(f"node_{number:06}", count, cores, memory_gib * GIB, model)


def _node(name: str, gpus: int, cores: int, memory_bytes: int, model: str) -> FreeNode:
    devices = [_device(f"{name}/{n}", DeviceKind.GPU, model) for n in range(gpus)]
    return FreeNode(
        id=NodeId(name),
        account_id=AccountId("account_owner"),
        own_tasks_only=False,
        cores=cores,
        free_cores=cores,
        free_memory_bytes=memory_bytes,
        free_disk_bytes=1024 * GIB,
        devices=(*devices, _device(f"{name}/cpu", DeviceKind.CPU, "CPU")),
        memory_bytes=memory_bytes,
        disk_bytes=1024 * GIB,
    )


def _device(name: str, kind: DeviceKind, model: str) -> FreeDevice:
    return FreeDevice(
        id=DeviceId(name),
        kind=kind,
        model=model,
        memory_bytes=16 * GIB,
        price_micro_per_hour=0,
        free_milli=1000,
        free_memory_bytes=16 * GIB,
    )


def _decided(given: Assignment) -> tuple[object, ...]:
    """Without fields that earlier checkouts do not have."""
    needed = given.requirements
    amounts = (needed.cores, needed.memory_bytes, needed.disk_bytes)
    place = (given.task_id, given.node_id, given.shares, amounts)
    return (*place, given.price_micro_per_hour, given.hold_micro, given.expected_seconds)


def _attempt(given: Assignment, account_id: AccountId, end: float) -> RunningAttempt:
    return given.running(AttemptId(f"attempt of {given.task_id}"), account_id, end)


def measure(asked: argparse.Namespace) -> dict[str, object]:
    bench = Bench(asked.gpus, asked.tasks, asked.accounts, asked.placement, asked.order)
    began = time.process_time()
    bench.load()
    loaded = time.process_time() - began
    # What was loaded stays: the collector need not walk through a million tasks again and again.
    gc.collect()
    gc.freeze()
    fill = bench.fill(asked.most)
    steady = bench.keep_full(asked.rounds, asked.part, asked.most)
    idle = bench.idle(200)
    bench.wait(3600)
    kept = bench.keep_full(asked.rounds, asked.part, asked.most, A_MINUTE)
    idle_kept = bench.idle(200)
    decisions = fill.decisions + steady.decisions
    each = sorted(fill.singles + steady.singles)
    return {
        "decisions_per_s": round(decisions / (fill.seconds + steady.seconds)),
        "p99_us": round(each[int(0.99 * len(each))] * 1e6, 1),
        "idle_round_ms": round(statistics.mean(idle) * 1e3, 4),
        "fill_decisions_per_s": fill.each_second,
        "steady_decisions_per_s": steady.each_second,
        "steady_with_reservations_per_s": kept.each_second,
        "idle_round_with_reservations_ms": round(statistics.mean(idle_kept) * 1e3, 4),
        "with_all_else_per_s": round(decisions / (fill.whole_seconds + steady.whole_seconds)),
        "decisions": decisions,
        "decisions_with_reservations": kept.decisions,
        "digest": bench.digest,
        "load_s": round(loaded, 2),
        "gpus": asked.gpus,
        "nodes": len(bench.nodes),
        "tasks": asked.tasks,
        "classes": len(bench.classes),
        "accounts": asked.accounts,
        "placement": asked.placement,
        "order": asked.order,
    }


def _checkout(text: str) -> Path:
    path = Path(text).resolve()
    if not (path / "src" / "potluck" / "decide").is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not a checkout of Potluck")
    return path


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or not 1 <= len(text) <= 9 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def _part(text: str) -> float:
    try:
        part = float(text)
    except ValueError:
        part = 0.0
    if not 0 < part <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number between 0 and 1")
    return part


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scheduler", description=__doc__)
    parser.add_argument("--gpus", type=_at_least_one, default=10_000)
    parser.add_argument("--tasks", type=_at_least_one, default=100_000)
    parser.add_argument("--accounts", type=_at_least_one, default=8)
    parser.add_argument("--placement", default="fragmentation", choices=sorted(PLACEMENTS))
    parser.add_argument("--order", default="fair", choices=sorted(ORDERS))
    parser.add_argument("--most", type=_at_least_one, default=500, help="decisions in a round")
    parser.add_argument("--rounds", type=_at_least_one, default=20, help="of keeping the pool full")
    parser.add_argument("--part", type=_part, default=0.03, help="of what runs ends each time")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--against", type=_checkout, help="another checkout, measured in turns")
    parser.add_argument("--turns", type=_at_least_one, default=5, help="with --against")
    asked = parser.parse_args()
    if asked.against is not None:
        names = ("gpus", "tasks", "accounts", "placement", "order", "most", "rounds", "part")
        options = [f"--{name}={getattr(asked, name)}" for name in names]
        print(json.dumps(compare(asked.against, asked.turns, options), indent=2))
        return
    found = measure(asked)
    if asked.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:24} {value}")


if __name__ == "__main__":
    main()
