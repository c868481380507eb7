"""A process that runs seeds: one per line of stdin, an outcome per line of stdout."""

import faulthandler
import gc
import sys

import msgspec
from msgspec import Struct

from verification.faults.cluster import history_cluster
from verification.faults.history import run_seed
from verification.faults.history_plan import HistoryPlan
from verification.faults.sessions import open_sessions

# A history makes few reference cycles; the default threshold costs a tenth of its time.
_ALLOCATIONS = 100_000


class WorkerSettings(Struct, frozen=True):
    """The same for all workers of a run."""

    plan: HistoryPlan
    seconds: float  # time limit of a seed; then the worker prints its stack and exits
    is_traced: bool = False


def work(settings: WorkerSettings) -> None:
    trace = _print_trace if settings.is_traced else None
    gc.set_threshold(_ALLOCATIONS)
    with history_cluster() as url, open_sessions(url) as sessions:
        for line in sys.stdin:
            faulthandler.dump_traceback_later(settings.seconds, exit=True)
            outcome = run_seed(sessions, int(line), settings.plan, trace)
            faulthandler.cancel_dump_traceback_later()
            print(msgspec.json.encode(outcome).decode(), flush=True)


def _print_trace(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    work(msgspec.json.decode(sys.argv[1], type=WorkerSettings))
