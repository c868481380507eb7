"""The cost of a guaranteed start: mean completion against the longest wait."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from msgspec import Struct

from potluck.decide.reservations.reserve import ReserveSettings
from potluck.server.policies import order_by_name, placement_by_name
from potluck.simulate.completion import Replay, SimulatedCluster, TraceOutcome
from potluck.simulate.trace import read_trace

# Hours within which a start is guaranteed; the last is practically no guarantee.
GUARANTEE_HOURS = (36.0, 48.0, 60.0, 72.0, 96.0, 168.0, 10_000.0)
# Standard deviation of the logarithm of the error of estimates.
ESTIMATE_SPREAD = 1.0


class FrontierRun(Struct, frozen=True):
    """The parameters of one replay."""

    trace: Path
    cluster: SimulatedCluster
    policy: str
    placement: str
    promise_hours: float
    spread: float = 0.0
    seed: int = 0


class FrontierPoint(Struct, frozen=True):
    run: FrontierRun
    outcome: TraceOutcome


def replay(run: FrontierRun) -> FrontierPoint:
    settings = ReserveSettings(promise_seconds=run.promise_hours * 3600)
    order, placement = order_by_name(run.policy), placement_by_name(run.placement)
    jobs = read_trace(run.trace)
    outcome = Replay(run.cluster, order, placement, settings).run(jobs, run.spread, run.seed)
    return FrontierPoint(run, outcome)


def replay_all(runs: list[FrontierRun], workers: int) -> list[FrontierPoint]:
    """Replays each run in its own process, and keeps the order."""
    if len(runs) == 1:
        return [replay(runs[0])]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return list(pool.map(replay, runs))
