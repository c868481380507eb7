"""What is recorded, by name: random pools, the bench's pool, and the public traces.

`python -m tests.decide.recorded.cases` prints the digests of this checkout, some or all of them:
compare them with `decisions.json`, which has those from before the scheduler was made faster.
Where decisions are meant to change, `--write` replaces them.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.scheduler import A_MINUTE, Bench
from potluck.decide.order import ORDERS
from potluck.decide.placement import PLACEMENTS
from potluck.decide.pool.capacity import PoolCapacity
from potluck.decide.types import WaitingTask
from potluck.model.ids import AccountId, TaskId
from potluck.model.task import Limits
from potluck.simulate.completion import Replay, SimulatedCluster
from potluck.simulate.openb import read_openb
from potluck.simulate.placement import arrivals
from potluck.simulate.trace import read_trace
from tests.decide.recorded.random_pool import RandomPool
from tests.decide.recorded.recorder import Recorder, recorded

DIGESTS = Path(__file__).parent / "decisions.json"
LISTS = ("default", "cpu100", "gpushare40", "gpuspec10", "multigpu20")
Case = Callable[[Path], str]


def random_pools(_: Path, *, order: str, placement: str, seeds: range) -> str:
    with recorded() as recorder:
        for seed in seeds:
            RandomPool(seed, order, placement, nodes=6 + seed * 7 % 60).run(150, recorder)
    return recorder.digest


def bench(_: Path, *, order: str, placement: str, gpus: int) -> str:
    """Fills a pool, keeps it full, and again when devices are reserved."""
    with recorded() as recorder:
        pool = Bench(gpus, 10 * gpus, 8, placement, order)
        pool.load()
        pool.fill(500)
        pool.keep_full(4, 0.03, 500)
        pool.wait(40 * 3600)
        pool.keep_full(4, 0.03, 500, A_MINUTE)
    return recorder.digest


def philly(
    traces: Path, *, order: str, placement: str, gpus: int = 640, limit: int | None = None
) -> str:
    jobs = read_trace(traces / "philly" / "philly.csv")[:limit]
    with recorded() as recorder:
        Replay(SimulatedCluster(gpus, 8), ORDERS[order](), PLACEMENTS[placement]()).run(jobs)
    return recorder.digest


def openb(traces: Path, *, name: str, placement: str, seed: int) -> str:
    """One by one, none ends, as in `potluck simulate placement --learn`."""
    trace, recorder = read_openb(traces / "openb", name), Recorder()
    capacity = PoolCapacity(PLACEMENTS[placement]())
    for node in trace.nodes:
        capacity.put_node(node)
    for number, requirements in enumerate(arrivals(trace, seed)):
        capacity.learn(requirements)
        task = WaitingTask(TaskId(str(number)), AccountId("openb"), requirements, Limits(), 0)
        fit = capacity.find(task)
        recorder.note(fit)
        if fit is not None:
            capacity.take(task, fit)
    return recorder.digest


def moderate_cases() -> dict[str, Case]:
    """A few seconds each at most."""
    cases: dict[str, Case] = {}
    for order in ORDERS:
        for placement in PLACEMENTS:
            part = partial(random_pools, order=order, placement=placement, seeds=range(2))
            cases[f"random {order} {placement}"] = part
    for order in ("fair", "shortest"):
        cases[f"bench {order}"] = partial(bench, order=order, placement="fragmentation", gpus=300)
        cases[f"philly {order} 2000"] = partial(
            philly, order=order, placement="fragmentation", gpus=160, limit=2000
        )
    cases["openb default"] = partial(openb, name="default", placement="fragmentation", seed=42)
    return cases


def long_cases() -> dict[str, Case]:
    """All traces with every policy."""
    cases: dict[str, Case] = {}
    for order in ORDERS:
        for placement in PLACEMENTS:
            part = partial(random_pools, order=order, placement=placement, seeds=range(2, 22))
            cases[f"more random {order} {placement}"] = part
        for placement in ("fragmentation", "best-fit"):
            cases[f"philly {order} {placement}"] = partial(philly, order=order, placement=placement)
    for placement in PLACEMENTS:
        cases[f"bench fair {placement} 2000"] = partial(
            bench, order="fair", placement=placement, gpus=2000
        )
        for name in LISTS:
            cases[f"openb {name} {placement}"] = partial(
                openb, name=name, placement=placement, seed=43
            )
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="a part of the name of each; default: all")
    parser.add_argument("--traces", type=Path, default=Path("../shared/traces"))
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    digests: dict[str, str] = json.loads(DIGESTS.read_text()) if DIGESTS.exists() else {}
    for name, case in (moderate_cases() | long_cases()).items():
        if arguments.names and not any(part in name for part in arguments.names):
            continue
        started = time.process_time()
        digest = case(arguments.traces)
        is_same = digests.get(name) == digest
        if arguments.write:
            digests[name] = digest
            DIGESTS.write_text(json.dumps(dict(sorted(digests.items())), indent=1) + "\n")
        seconds = time.process_time() - started
        print(f"{name:40} {digest} {'same' if is_same else 'OTHER'} {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
