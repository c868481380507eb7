"""How many single tasks a second a pool does, and what one costs, also after growth.

    make bench-tasks                                   scripts and commands, in about a minute
    python -m bench.tasks --seconds 5 --rounds 1       sooner
    python -m bench.tasks --growth                     with up to 1,000,000 tasks and 5,000 nodes

Starts PostgreSQL, a server and a provider in its sandbox with their usual settings on loopback. A
script is one line of Python, a command is /bin/true; each is a task of its own, durable before it
is acknowledged, and runs in a sandbox of its own. Tasks are submitted in lists, and timed from the
first submission until all have ended.

`per_task` counts what one task costs: requests, statements and commits of the server, WAL records,
syncs and bytes, rows that PostgreSQL read, and milliseconds of processor time of each process with
all its children (the provider's include the sandboxes and what runs in them). Counts do not depend
on how busy the machine is. Prints JSON.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import asyncpg
import psutil
import urllib3

from bench.seed import seed_tasks
from bench.started import SETTLE_SECONDS, new_wallet, started
from bench.take_over import KEY, sealed_spec, seed_nodes, watch
from potluck.consumer.http.connect import connect_anonymously
from potluck.consumer.identity.sign_in import sign_in
from potluck.consumer.identity.wallet import Wallet as KeyWallet
from potluck.server.postgres import EmbeddedPostgres
from potluck.store.schema import migrate

MODES: dict[str, dict[str, object]] = {
    "scripts": {"kind": "script", "filename": "bench.py", "source": "print(1)\n"},
    "commands": {"kind": "command", "command": ["/bin/true"]},
}
GROWN_TASKS, GROWN_NODES = (0, 100_000, 1_000_000), (1, 100, 5_000)
_LIST = 250  # tasks in one request
# After this time an idle connection has told PostgreSQL what it counted.
_STATISTICS_SECONDS = 11.0
_VARIABLES = {"POTLUCK_QUOTA_QUEUED_TASKS": "1000000", "POTLUCK_ACCOUNT_REQUESTS_PER_SECOND": "0"}
_COUNTED = """
SELECT xact_commit AS transactions, tup_returned + tup_fetched AS rows_read,
    (SELECT wal_records FROM pg_stat_wal) AS wal_records,
    (SELECT wal_bytes FROM pg_stat_wal) AS wal_bytes,
    (SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal') AS wal_syncs
FROM pg_stat_database WHERE datname = current_database()
"""


class Bench(NamedTuple):
    """A server, a provider and PostgreSQL, all on this machine, and a client of the owner."""

    url: str
    database_url: str
    headers: Mapping[str, str]
    http: urllib3.PoolManager
    processes: dict[str, psutil.Process]

    def submit(self, spec: Mapping[str, object], count: int) -> list[str]:
        body = json.dumps({"tasks": [{"spec": spec}] * count}).encode()
        headers = {**self.headers, "Idempotency-Key": uuid4().hex}
        answer = self.http.request("POST", f"{self.url}/v1/tasks/batch", body=body, headers=headers)
        assert answer.status < 300, answer.data
        return [submitted["task_id"] for submitted in answer.json()["tasks"]]

    def wait(self, task_ids: list[str]) -> None:
        """Until the last one has ended, by its key alone; then all are checked."""
        asyncio.run(self._wait(task_ids))

    async def _wait(self, task_ids: list[str]) -> None:
        connection = await asyncpg.connect(self.database_url)
        query = "SELECT state FROM tasks WHERE id = $1"
        try:
            for task_id in reversed(task_ids):
                while await connection.fetchval(query, task_id) != "succeeded":
                    await asyncio.sleep(0.01)
        finally:
            await connection.close()

    def counted(self) -> dict[str, float]:
        """Everything that is counted, from the start of the processes."""
        time.sleep(_STATISTICS_SECONDS)
        samples = _samples(self.http.request("GET", f"{self.url}/metrics", headers=self.headers))
        statements = {
            name: value for name, value in samples.items() if "statement_seconds_count" in name
        }
        counts = {
            "requests": sum(v for n, v in samples.items() if "http_requests_total" in n),
            "statements": sum(v for n, v in statements.items() if "transaction" not in n),
            **asyncio.run(self._database_counts()),
            **{f"{name}_cpu_ms": _cpu_ms(process) for name, process in self.processes.items()},
        }
        return counts | {f"by_name {name}": value for name, value in statements.items()}

    async def _database_counts(self) -> dict[str, float]:
        connection = await asyncpg.connect(self.database_url)
        try:
            row = await connection.fetchrow(_COUNTED)
            return {name: float(value) for name, value in row.items()}
        finally:
            await connection.close()


def _samples(answer: urllib3.BaseHTTPResponse) -> dict[str, float]:
    assert answer.status == 200, answer.data
    lines = [line for line in answer.data.decode().splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def _cpu_ms(process: psutil.Process) -> float:
    """With its children, those that have ended included."""
    total = 0.0
    for each in (process, *process.children(recursive=True)):
        try:
            total += sum(each.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total * 1000


@contextmanager
def running(database_url: str, postgres_pid: int, directory: Path) -> Iterator[Bench]:
    wallet = new_wallet()
    arguments = ("server", "--port", "0", "--data-dir", directory)
    variables = {
        **_VARIABLES,
        "POTLUCK_OPERATOR": wallet.address,
        "POTLUCK_DATABASE_URL": database_url,
        "POTLUCK_ENCRYPTION_KEY": KEY,
    }
    with started(arguments, variables, directory / "server.log") as server:
        url = server.first["url"]
        watch(url, directory / "server.log", 600)
        given = ("provide", url, "--data-dir", directory / "provider")
        keys = {"POTLUCK_WALLET_KEY": wallet.key}
        with started(given, keys, directory / "provider.log") as provider:
            token = sign_in(
                connect_anonymously(url), KeyWallet(bytes.fromhex(wallet.key))
            ).access_token
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            processes = {
                "server": psutil.Process(server.process.pid),
                "provider": psutil.Process(provider.process.pid),
                "postgresql": psutil.Process(postgres_pid),
            }
            http = urllib3.PoolManager(retries=False, timeout=60)
            time.sleep(SETTLE_SECONDS)
            yield Bench(url, database_url, headers, http, processes)


def measure_mode(bench: Bench, mode: str, seconds: float, rounds: int) -> dict[str, Any]:
    spec = MODES[mode]
    bench.wait(bench.submit(spec, 20))
    began = time.perf_counter()
    bench.wait(bench.submit(spec, 50))
    rate = 50 / (time.perf_counter() - began)
    count = max(_LIST, round(rate * seconds / _LIST) * _LIST)
    rates = []
    before = bench.counted()
    for _ in range(rounds):
        began = time.perf_counter()
        task_ids = [one for _ in range(0, count, _LIST) for one in bench.submit(spec, _LIST)]
        bench.wait(task_ids)
        rates.append(count / (time.perf_counter() - began))
    after = bench.counted()
    per_task = {
        name: round((after[name] - before.get(name, 0.0)) / (count * rounds), 3) for name in after
    }
    return {
        "per_s": round(statistics.median(rates), 1),
        "best_per_s": round(max(rates), 1),
        "tasks": count * rounds,
        "per_task": {n: v for n, v in per_task.items() if not n.startswith("by_name ")},
        "statements_per_task": {
            n.partition('"')[2].partition('"')[0]: v
            for n, v in sorted(per_task.items(), key=lambda each: -each[1])
            if n.startswith("by_name ") and v >= 0.01
        },
    }


async def fill(database_url: str, tasks: int, nodes: int) -> None:
    """Mostly ended tasks of many accounts, none of which waits, and nodes that are away."""
    connection = await asyncpg.connect(database_url)
    try:
        if tasks or nodes > 1:  # the nodes are of the first account
            await seed_tasks(connection, tasks, sealed_spec=sealed_spec(), waits=False)
        if nodes > 1:
            await seed_nodes(connection, nodes - 1)
            # They would be given tasks that they never run.
            await connection.execute("UPDATE nodes SET own_tasks_only = true")
    finally:
        await connection.close()


def measure(
    tasks: int, nodes: int, seconds: float, rounds: int, modes: list[str]
) -> dict[str, Any]:
    """One node really works; the others are rows that are online and have work of their own."""
    with tempfile.TemporaryDirectory(prefix="potluck-bench-") as name:
        directory = Path(name)
        (directory / "provider").mkdir(mode=0o700)
        loop = asyncio.new_event_loop()
        postgres = EmbeddedPostgres(directory / "postgres")
        url = loop.run_until_complete(postgres.start())
        try:
            loop.run_until_complete(migrate(url))
            loop.run_until_complete(fill(url, tasks, nodes))
            postmaster = (directory / "postgres").rglob("postmaster.pid")
            pid = int(next(iter(postmaster)).read_text().split()[0])
            with running(url, pid, directory) as bench:
                measured = {mode: measure_mode(bench, mode, seconds, rounds) for mode in modes}
        finally:
            loop.run_until_complete(postgres.stop())
            loop.close()
    return {"tasks_before": tasks, "nodes": nodes, **measured}


def growth(seconds: float, rounds: int, modes: list[str]) -> list[dict[str, Any]]:
    sizes = [(tasks, 1) for tasks in GROWN_TASKS] + [(0, nodes) for nodes in GROWN_NODES[1:]]
    return [measure(tasks, nodes, seconds, rounds, modes) for tasks, nodes in sizes]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="about, for each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--modes", nargs="*", choices=MODES, default=list(MODES))
    parser.add_argument("--tasks", type=int, default=0, help="that are in the database before")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--growth", action="store_true", help="all sizes, one after the other")
    parser.add_argument("--json", action="store_true", help="which is what it prints anyway")
    given = parser.parse_args()
    kind = (given.seconds, given.rounds, given.modes)
    found = growth(*kind) if given.growth else measure(given.tasks, given.nodes, *kind)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
