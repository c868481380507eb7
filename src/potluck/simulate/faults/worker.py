"""Runs seeds in a process of its own, and tells what each came to, a line of JSON for each.

Python shuffles its sets anew in each process unless it is told how: a history that must replay is
run by a process that `many` has started, with the same shuffle each time.
"""

import sys

import msgspec
from msgspec import Struct

from potluck.simulate.faults.run import run_seed
from potluck.simulate.faults.world import Plan


class Order(Struct, frozen=True):
    """What a worker is to do: every `stride`th seed from the first on."""

    first: int
    count: int
    stride: int
    plan: Plan
    is_traced: bool = False


def work(order: Order) -> None:
    trace = _trace if order.is_traced else None
    for place in range(order.count):
        outcome = run_seed(order.first + place * order.stride, order.plan, trace)
        _say(msgspec.json.encode(outcome).decode())


def _trace(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201  this is a program of its own


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    work(msgspec.json.decode(sys.argv[1], type=Order))
