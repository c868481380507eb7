"""What many connected idle nodes cost the server, and how soon it answers meanwhile.

    make bench-nodes                                  4,000 nodes, ten minutes
    python -m bench.nodes --nodes 500 --seconds 60    fewer, for less long
    python -m bench.nodes --plot nodes.svg            the plot in this file
    python -m bench.nodes --separate-beats            as nodes of earlier versions behave

Starts PostgreSQL and a server with their usual settings on loopback, and processes with many nodes
each (`bench.node_crowd`): every node signs in with a key of its own, registers, polls for work and
sends heartbeats as a provider does. Now and then a task is submitted, which one of the nodes gets.
Prints JSON, and writes a plot. One node in a hundred runs a task all the time: heartbeats of the
others come with their polls, and only those of nodes that run something have a time of their own.

`server_percent_of_core` and `postgres_percent_of_core` are processor time, user and system, without
the processes of the nodes. `kib_per_node` is by how much the memory of the server has grown since
before the first node, by its private pages. Times are as the nodes and the submitter saw them.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from bench import plot
from bench.node_crowd import KEPT, addresses_for
from bench.started import new_wallet, started
from potluck.consumer import Potluck
from potluck.consumer.http.connect import connect_anonymously
from potluck.consumer.identity.sign_in import sign_in
from potluck.consumer.identity.wallet import Wallet as KeyWallet
from potluck.model.error import PotluckError
from potluck.model.task import TaskRequest
from potluck.model.task_spec import ScriptSpec

MOST_PERCENT_OF_CORE = 20.0
MOST_BEAT_P99_MS = 200.0
MOST_SUBMIT_P99_MS = 100.0
MOST_KIB_PER_NODE = 45.0
# As many as one account may have.
_NODES_PER_PROCESS = 1_000
# Until every node has polled and sent a heartbeat.
_SETTLE_SECONDS = 60.0
_LOOK_SECONDS = 2.0
_SUBMIT_SECONDS = 2.0
_NODES_PER_KEPT_TASK = 100


class Usage(NamedTuple):
    """Processor time and memory at one moment."""

    at: float
    server_seconds: float
    postgres_seconds: float
    server_kib: float


class Crowd:
    """A process with many nodes, and what it has said."""

    def __init__(self, url: str, nodes: int, first_address: int, *more: str) -> None:
        arguments = [url, "--nodes", str(nodes), "--first-address", str(first_address), *more]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.node_crowd", *arguments],
            env={**os.environ, "POTLUCK_WALLET_KEY": new_wallet().key},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.lines: list[dict[str, Any]] = []
        self._reading = threading.Thread(target=self._read, daemon=True)

    def wait_until_registered(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), "its nodes did not register"
        self._reading.start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self.lines.append(json.loads(line))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def look(server: psutil.Process) -> Usage:
    """PostgreSQL is below the server; its processes come and go, so each is asked for its own."""
    postgres = 0.0
    for process in server.children(recursive=True):
        try:
            postgres += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    memory = server.memory_full_info()
    return Usage(time.time(), sum(server.cpu_times()[:2]), postgres, memory.uss / 1024)


class Submitter:
    """Submits a task now and then, and waits for its end."""

    def __init__(self, client: Potluck) -> None:
        self._client = client
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.failures = 0
        self.submits: list[tuple[float, float]] = []  # when, and milliseconds
        self.ends: list[tuple[float, float]] = []

    def __enter__(self) -> "Submitter":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._ended.wait(_SUBMIT_SECONDS):
            try:
                self._submit()
            except PotluckError as error:
                self.failures += 1
                _say(f"a submission failed: {error.detail}")

    def _submit(self) -> None:
        began = time.perf_counter()
        task = self._client.tasks.submit(TaskRequest(ScriptSpec("nothing.py", "pass")))
        now = time.time()
        self.submits.append((now, (time.perf_counter() - began) * 1000))
        self._client.tasks.wait(task.id)
        self.ends.append((now, (time.perf_counter() - began) * 1000))


@contextmanager
def connected(url: str, nodes: int, *more: str) -> Iterator[list[Crowd]]:
    """So many nodes, from when all are registered."""
    with ExitStack() as stack:
        crowds, address = [], 2
        for first in range(0, nodes, _NODES_PER_PROCESS):
            count = min(_NODES_PER_PROCESS, nodes - first)
            crowd = Crowd(url, count, address, *more)
            stack.callback(crowd.close)
            address += addresses_for(count)
            crowds.append(crowd)
        for crowd in crowds:
            crowd.wait_until_registered()
        yield crowds


def measure(
    nodes: int, seconds: float, directory: Path, picture: Path, *more: str
) -> dict[str, Any]:
    wallet = new_wallet()
    arguments = ("server", "--port", "0", "--data-dir", directory)
    variables = {"POTLUCK_OPERATOR": wallet.address}
    with started(arguments, variables, directory / "server.log") as running:
        url, server = running.first["url"], psutil.Process(running.process.pid)
        token = sign_in(connect_anonymously(url), KeyWallet(bytes.fromhex(wallet.key))).access_token
        with Potluck(url, token) as client:
            client.account.me()
            before = look(server)
            began = time.monotonic()
            with connected(url, nodes, *more) as crowds:
                registered_seconds = time.monotonic() - began
                _say(f"{nodes} nodes registered in {registered_seconds:.0f} s")
                time.sleep(_SETTLE_SECONDS)
                for _ in range(max(1, nodes // _NODES_PER_KEPT_TASK)):
                    client.tasks.submit(TaskRequest(ScriptSpec(KEPT, "pass")))
                time.sleep(_SETTLE_SECONDS / 2)
                with Submitter(client) as submitter:
                    usages = watch(server, seconds)
                lines = [line for crowd in crowds for line in list(crowd.lines)]
            answer = summarise(nodes, before, usages, lines, submitter)
    draw(picture, before, usages, lines, submitter, nodes)
    return answer | {"registered_seconds": round(registered_seconds, 1), "plot": picture.name}


def watch(server: psutil.Process, seconds: float) -> list[Usage]:
    end = time.monotonic() + seconds
    usages = [look(server)]
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, _LOOK_SECONDS))
        usages.append(look(server))
    return usages


def summarise(
    nodes: int,
    before: Usage,
    usages: Sequence[Usage],
    lines: Sequence[dict[str, Any]],
    submitter: Submitter,
) -> dict[str, Any]:
    first, last = usages[0], usages[-1]
    over = last.at - first.at
    server = 100 * (last.server_seconds - first.server_seconds) / over
    postgres = 100 * (last.postgres_seconds - first.postgres_seconds) / over
    within = [line for line in lines if line["at"] >= first.at]
    beats = [beat for line in within for beat in line["beats_ms"]]
    submits = [ms for _, ms in submitter.submits]
    figures = {
        "percent_of_core": round(server + postgres, 2),
        "beat_p99_ms": round(percentile(beats, 0.99), 1),
        "submit_p99_ms": round(percentile(submits, 0.99), 1),
        "kib_per_node": round((max(u.server_kib for u in usages) - before.server_kib) / nodes, 1),
    }
    goals = {
        "percent_of_core": MOST_PERCENT_OF_CORE,
        "beat_p99_ms": MOST_BEAT_P99_MS,
        "submit_p99_ms": MOST_SUBMIT_P99_MS,
        "kib_per_node": MOST_KIB_PER_NODE,
    }
    return {
        "nodes": nodes,
        "seconds": round(over, 1),
        **figures,
        "server_percent_of_core": round(server, 2),
        "postgres_percent_of_core": round(postgres, 2),
        "beat_p50_ms": round(statistics.median(beats), 1),
        "submit_p50_ms": round(statistics.median(submits), 1),
        "submit_to_end_p50_ms": round(statistics.median([ms for _, ms in submitter.ends]), 1),
        "beats_per_second": round(len(beats) / over, 1),
        "polls_per_second": round(sum(line["polls"] for line in within) / over, 1),
        "tasks_done": sum(line["grants"] for line in within),
        "failed_submissions": submitter.failures,
        "errors_of_nodes": sum(line["errors"] for line in within),
        "server_mb": round(last.server_kib / 1024, 1),
        "goals": goals,
        "is_met": all(figures[name] < most for name, most in goals.items()),
        "cores": os.cpu_count(),
    }


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values) or [float("nan")]
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def draw(
    picture: Path,
    before: Usage,
    usages: Sequence[Usage],
    lines: Sequence[dict[str, Any]],
    submitter: Submitter,
    nodes: int,
) -> None:
    start = usages[0].at
    pairs = list(itertools.pairwise(usages))
    beats: dict[int, list[float]] = {}
    for line in lines:
        if line["at"] >= start:
            beats.setdefault(int((line["at"] - start) // 10), []).extend(line["beats_ms"])
    beat_lines = {
        name: [(10 * (n + 0.5), percentile(ms, share)) for n, ms in sorted(beats.items()) if ms]
        for name, share in (("p50", 0.5), ("p99", 0.99))
    }
    share_lines = {
        "server": [
            (b.at - start, 100 * (b.server_seconds - a.server_seconds) / (b.at - a.at))
            for a, b in pairs
        ],
        "PostgreSQL": [
            (b.at - start, 100 * (b.postgres_seconds - a.postgres_seconds) / (b.at - a.at))
            for a, b in pairs
        ],
    }
    memory = [(u.at - start, (u.server_kib - before.server_kib) / nodes) for u in usages]
    submits = [(at - start, ms) for at, ms in submitter.submits]
    plot.write_lines(
        picture,
        [
            plot.line_panel("Processor, percent of a core", share_lines, MOST_PERCENT_OF_CORE),
            plot.line_panel("Heartbeats, ms", beat_lines, MOST_BEAT_P99_MS),
            plot.line_panel("Submissions, ms", {"each": submits}, MOST_SUBMIT_P99_MS),
            plot.line_panel("Memory of the server, KiB a node", {"": memory}, MOST_KIB_PER_NODE),
        ],
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=4_000)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--plot", type=Path, default=Path("bench/results/nodes.svg"))
    parser.add_argument("--json", action="store_true", help="which is what it prints anyway")
    parser.add_argument("--separate-beats", action="store_true")
    given = parser.parse_args()
    more = ["--separate-beats"] if given.separate_beats else []
    given.plot.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="potluck-bench-") as name:
        figures = measure(given.nodes, given.seconds, Path(name), given.plot, *more)
        print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
