"""Runs seeds in a process of its own: a seed a line comes in, and what it came to goes out as JSON.

Python shuffles its sets anew in each process unless it is told how: a history that must replay is
run by a process that `many` has started, with the same shuffle each time.
"""

import faulthandler
import gc
import sys

import msgspec
from msgspec import Struct

from verification.faults.history_plan import Plan
from verification.faults.history import run_seed

# A history makes few cycles, and is short: looking for them as often as usual takes a tenth of it.
_ALLOCATIONS = 100_000


class Order(Struct, frozen=True):
    """How a worker is to work."""

    plan: Plan
    seconds: float  # that a seed may take; then the worker says where it is, and ends
    is_traced: bool = False


def work(order: Order) -> None:
    trace = _trace if order.is_traced else None
    gc.set_threshold(_ALLOCATIONS)
    for line in sys.stdin:
        faulthandler.dump_traceback_later(order.seconds, exit=True)
        outcome = run_seed(int(line), order.plan, trace)
        faulthandler.cancel_dump_traceback_later()
        _say(msgspec.json.encode(outcome).decode())


def _trace(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201  this is a program of its own


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    work(msgspec.json.decode(sys.argv[1], type=Order))
