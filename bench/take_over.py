"""How soon a new leader places tasks again, and has loaded everything, with many waiting.

    make bench-take-over                       a million waiting tasks
    python -m bench.take_over --tasks N        as many as you like

Fills a PostgreSQL of its own, starts a server on it and watches from outside. Prints JSON.
`resumed_s` is from the start of the term to the first task that is placed, `loaded_s` to when all
that wait are known. Meanwhile /healthz is asked again and again: it needs nothing but its turn, so
its slowest answer says for how long nothing else had one.
"""

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import urllib3

from bench.seed import seed_tasks
from potluck.model.task import TaskState
from potluck.server.postgres import EmbeddedPostgres
from potluck.store.schema import migrate
from potluck.store.sealing.vault import GivenKeys, KeyRing, Vault
from potluck.store.tasks.tasks import SPEC

# Sixty kinds of tasks, from one card of any kind to eight large ones.
CLASSES = [
    json.dumps({"device_kind": "gpu", "device_count": count, "cores": cores, "device_model": model})
    for count in (1, 2, 4, 8)
    for cores in (1, 2, 4)
    for model in (None, "A100", "H100", "RTX 4090", "L40")
]
_NODES = """
INSERT INTO nodes (id, account_id, name, state, own_tasks_only, description, cores, memory_bytes,
    disk_bytes, heartbeat_at)
SELECT 'node_' || lpad(n::text, 26, '0'), 'account_' || lpad('0', 26, '0'), 'bench', 'online',
    false, '{"labels": [], "sandbox": {"driver": "bwrap"}}', 64, 2^40, 2^40,
    now() + interval '1 hour'
FROM generate_series(1, $1) AS n
"""
_DEVICES = """
INSERT INTO devices (id, node_id, uuid, position, kind, description, model, memory_bytes,
    price_micro_per_hour, standing)
SELECT replace(nodes.id, 'node_', 'device_') || place, nodes.id, nodes.id || place, place, 'gpu',
    '{"vendor": "NVIDIA"}', 'A100', 2^35, 0, 'bound'
FROM nodes, generate_series(1, 8) AS place
"""


KEY = "5e" * 32


def sealed_spec() -> bytes:
    vault = Vault(GivenKeys("the bench", KeyRing([bytes.fromhex(KEY)])))
    return vault.seal(*SPEC, "task", b"{}")


async def seed_nodes(connection: asyncpg.Connection, count: int) -> None:
    """Nodes with eight devices each, of the first account of `seed_tasks`."""
    await connection.execute(_NODES, count)
    await connection.execute(_DEVICES)


async def seed(url: str, tasks: int, nodes: int) -> None:
    connection = await asyncpg.connect(url)
    try:
        queued = TaskState.QUEUED
        await seed_tasks(
            connection, tasks, state=queued, requirements=CLASSES, sealed_spec=sealed_spec()
        )
        await seed_nodes(connection, nodes)
        await connection.execute("ANALYZE")
    finally:
        await connection.close()


@contextmanager
def server(url: str, directory: Path) -> Iterator[tuple[str, Path]]:
    log = directory / "server.log"
    command = [sys.executable, "-m", "potluck", "server", "--json", "--port", "0"]
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [*command, "--data-dir", str(directory)],
            env={**os.environ, "POTLUCK_DATABASE_URL": url, "POTLUCK_ENCRYPTION_KEY": KEY},
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
    try:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert "url" in first, first
        yield first["url"], log
    finally:
        process.terminate()
        process.communicate()


def watch(address: str, log: Path, seconds: float) -> tuple[dict[str, Any], list[float]]:
    """The log's lines by what they say, once all is loaded; and how long each question took."""
    http = urllib3.PoolManager(retries=False, timeout=60)
    answers: list[float] = []
    deadline = time.monotonic() + seconds
    while True:
        began = time.perf_counter()
        http.request("GET", f"{address}/healthz")
        answers.append(time.perf_counter() - began)
        lines = [json.loads(line) for line in log.read_text().splitlines() if line[:1] == "{"]
        said = {line["event"]: line for line in lines}
        if "the whole queue is loaded" in said:
            return said, answers
        assert time.monotonic() < deadline, f"not loaded in {seconds} s: {lines[-3:]}"
        time.sleep(0.01)


async def first_placed(url: str) -> tuple[datetime | None, int]:
    connection = await asyncpg.connect(url)
    try:
        row = await connection.fetchrow("SELECT min(assigned_at), count(*) FROM attempts")
        return row[0], row[1]
    finally:
        await connection.close()


async def measure(tasks: int, nodes: int, seconds: float) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="potluck-bench-") as name:
        directory = Path(name)
        postgres = EmbeddedPostgres(directory / "postgres")
        url = await postgres.start()
        try:
            await migrate(url)
            await seed(url, tasks, nodes)
            cpu_before = _cpu_of_children()
            with server(url, directory) as (address, log):
                said, answers = await asyncio.to_thread(watch, address, log, seconds)
            cpu_seconds = _cpu_of_children() - cpu_before
            placed_at, placed = await first_placed(url)
        finally:
            await postgres.stop()
    began = datetime.fromisoformat(said["leading"]["timestamp"]).astimezone(UTC)
    loaded = said["the whole queue is loaded"]
    answers.sort()
    return {
        "tasks": tasks,
        "nodes": nodes,
        "resumed_s": None if placed_at is None else round((placed_at - began).total_seconds(), 3),
        "loaded_s": loaded["seconds"],
        "server_cpu_s": round(cpu_seconds, 1),
        "waiting": loaded["waiting"],
        "placed": placed,
        "answers": len(answers),
        "p99_ms": round(answers[int(len(answers) * 0.99)] * 1000, 1),
        "slowest_ms": round(answers[-1] * 1000, 1),
    }


def _cpu_of_children() -> float:
    """Of those that have ended: on a busy machine this says more than the time on the wall."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=300, help="to wait for it at most")
    parser.add_argument("--json", action="store_true", help="the only form there is")
    chosen = parser.parse_args()
    print(json.dumps(asyncio.run(measure(chosen.tasks, chosen.nodes, chosen.seconds)), indent=2))


if __name__ == "__main__":
    main()
