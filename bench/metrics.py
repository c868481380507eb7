"""What metrics cost: a request with and without them, and the event loop during a scrape.

    make bench-metrics                          both, in about five minutes
    python -m bench.metrics --generations 2     sooner

Two servers that differ in POTLUCK_METRICS alone get the same requests, one by one in turns, so that
whatever else the machine does concerns both. On a busy machine, the processor time of the server
says more than the time of a request; both are printed. Prints JSON.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import urllib3
import uvloop

from bench.started import started
from potluck.server.metrics import definitions as names
from potluck.server.metrics.metrics import ServerMetrics
from tests.wallets import Wallet

MOST_PERCENT = 3.0
MOST_LOOP_SECONDS = 0.005
_WARM_UP = 50
_TASK = {
    "spec": {"kind": "script", "filename": "a.py", "source": "print(1)"},
    "requirements": {"memory_bytes": 2**50},  # it waits: no machine has so much
}
_VARIABLES = {
    "POTLUCK_QUOTA_QUEUED_TASKS": "1000000",
    "POTLUCK_ACCOUNT_REQUESTS_PER_SECOND": "0",
    "PYTHONHASHSEED": "0",  # two processes differ less then
}


class Server(NamedTuple):
    url: str
    process: psutil.Process
    headers: dict[str, str]
    pool: urllib3.PoolManager


class Cost(NamedTuple):
    """What a request took, by server."""

    seconds: dict[str, float]
    cpu_seconds: dict[str, float]


KINDS: dict[str, tuple[str, str, Any]] = {
    "GET /healthz": ("GET", "/healthz", None),
    "GET /v1/me": ("GET", "/v1/me", None),
    "POST /v1/tasks": ("POST", "/v1/tasks", _TASK),
}


@contextmanager
def serving(directory: Path, has_metrics: bool) -> Iterator[Server]:
    directory.mkdir()
    wallet = Wallet("operator")
    variables = {**_VARIABLES, "POTLUCK_METRICS": json.dumps(has_metrics)}
    variables["POTLUCK_OPERATOR"] = wallet.address
    arguments = ("server", "--port", "0", "--data-dir", directory)
    with started(arguments, variables, directory / "server.log") as running:
        url = running.first["url"]
        token = wallet.sign_in(url)["access_token"]
        process = psutil.Process(running.process.pid)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        yield Server(url, process, headers, urllib3.PoolManager(retries=False))


def request_seconds(server: Server, kind: str) -> float:
    method, path, value = KINDS[kind]
    body = None if value is None else json.dumps(value).encode()
    began = time.perf_counter()
    answer = server.pool.request(method, server.url + path, body=body, headers=server.headers)
    seconds = time.perf_counter() - began
    assert answer.status < 300, answer.data
    return seconds


def _cpu_seconds(server: Server) -> float:
    times = server.process.cpu_times()
    return float(times.user + times.system)


def compare_requests(generations: int, pairs: int) -> dict[str, Any]:
    """Two processes differ by up to 6 % by themselves, so many pairs of them are started."""
    found = [_compare_generation(number, pairs) for number in range(generations)]
    return {kind: _combine([each[kind] for each in found]) for kind in KINDS}


def _compare_generation(number: int, pairs: int) -> dict[str, Cost]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        order = ("on", "off") if number % 2 else ("off", "on")
        servers = {
            name: stack.enter_context(serving(directory / name, name == "on")) for name in order
        }
        return {kind: _compare(servers, kind, pairs) for kind in KINDS}


def _compare(servers: dict[str, Server], kind: str, pairs: int) -> Cost:
    for server in servers.values():
        for _ in range(_WARM_UP):
            request_seconds(server, kind)
    before = {name: _cpu_seconds(server) for name, server in servers.items()}
    seconds: dict[str, list[float]] = {"on": [], "off": []}
    for turn in range(pairs):
        for name in ("on", "off") if turn % 2 else ("off", "on"):
            seconds[name].append(request_seconds(servers[name], kind))
    return Cost(
        {name: statistics.median(values) for name, values in seconds.items()},
        {name: (_cpu_seconds(server) - before[name]) / pairs for name, server in servers.items()},
    )


def _combine(costs: list[Cost]) -> dict[str, Any]:
    return {
        "request": _in_percent([cost.seconds for cost in costs]),
        "server_cpu": _in_percent([cost.cpu_seconds for cost in costs]),
    }


def _in_percent(pairs: list[dict[str, float]]) -> dict[str, Any]:
    middle = {name: statistics.median(pair[name] for pair in pairs) for name in ("on", "off")}
    percents = sorted(100 * (pair["on"] / pair["off"] - 1) for pair in pairs)
    return {
        "on_ms": round(1000 * middle["on"], 4),
        "off_ms": round(1000 * middle["off"], 4),
        "more_percent": round(statistics.median(percents), 2),
        "more_percent_of_each": [round(each, 1) for each in percents],
    }


async def measure_scrapes(series: int, scrapes: int) -> dict[str, Any]:
    """How much of the event loop's thread a scrape takes, and how late its timers are meanwhile."""
    metrics = _filled(series)
    await metrics.render("")
    idle = await _lags(asyncio.sleep(1.0))
    costs: list[float] = []
    walls: list[float] = []

    async def scrape() -> None:
        for _ in range(scrapes):
            cpu, wall = time.thread_time(), time.perf_counter()
            await metrics.render("application/openmetrics-text; version=1.0.0")
            costs.append(time.thread_time() - cpu)
            walls.append(time.perf_counter() - wall)

    busy = await _lags(scrape())
    return {
        "series": metrics.registry.render("").body.count(b"\n"),
        "render_ms": _summary(walls),
        "loop_cpu_ms": _summary(costs),
        "lag_ms": {"idle": _summary(idle), "during_scrapes": _summary(busy)},
    }


async def _lags(work: Any) -> list[float]:
    """How late a timer of a millisecond is while this runs, again and again."""
    lags: list[float] = []

    async def tick() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.001)
            lags.append(time.perf_counter() - began - 0.001)

    ticking = asyncio.create_task(tick())
    await work
    ticking.cancel()
    return lags


def _filled(series: int) -> ServerMetrics:
    """As of a server with so many series: most are buckets of routes."""
    metrics = ServerMetrics()
    per_route = len(names.REQUEST_DURATION.buckets) + 3
    for number in range(max(1, series // per_route)):
        metrics.requests.route(f"GET /v1/route/{number}").observe(0.01)
    return metrics


def _summary(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    places = {"median": 0.5, "p99": 0.99}
    found = {name: ordered[int(place * (len(ordered) - 1))] for name, place in places.items()}
    return {name: round(1000 * value, 3) for name, value in {**found, "most": ordered[-1]}.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--generations", type=int, default=25, help="pairs of servers")
    parser.add_argument("--pairs", type=int, default=1_000, help="requests to each server")
    parser.add_argument("--scrapes", type=int, default=50)
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        scrapes = [
            runner.run(measure_scrapes(series, options.scrapes)) for series in (1_500, 5_000)
        ]
    requests = compare_requests(options.generations, options.pairs)
    print(
        json.dumps(
            {
                "goals": {"percent": MOST_PERCENT, "loop_ms": 1000 * MOST_LOOP_SECONDS},
                "requests": requests,
                "scrapes": scrapes,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
