"""How fast calls of a function are, and what each costs: one at a time, from threads, in a loop.

    make bench-calls
    python -m bench.calls --calls 5000 --json

Starts PostgreSQL, a server and a provider with their usual settings on loopback; the function runs
in the provider's sandbox, and every call and every result is durable before it is told. The first
calls are not measured: they start the interpreter and open the stream. `one_at_a_time` waits for
each result before the next call, `threads` has 64 threads that do so, and `loop` submits all calls
and then gathers them. Counts are of the whole server during the measurement, for each call:
requests and statements as its `/metrics` counts them, commits by PostgreSQL's transaction ids,
which only transactions that write take, WAL records by `pg_stat_wal`.
"""

import argparse
import asyncio
import json
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import urllib3

import potluck
from bench.started import new_wallet, started
from potluck.consumer import Potluck
from potluck.consumer.http.connect import connect_anonymously
from potluck.consumer.identity.sign_in import sign_in
from potluck.consumer.identity.wallet import Wallet as KeyWallet
from potluck.server.postgres import EmbeddedPostgres

THREADS = 64
_STATEMENTS, _REQUESTS = "potluck_database_statement_seconds_count", "potluck_http_requests_total"
_COUNT = re.compile(rf"^({_STATEMENTS}|{_REQUESTS})(?:\{{.*\}})? (\S+)$", re.MULTILINE)


def nothing(number: int) -> int:
    return number


class Counts:
    """What the server and PostgreSQL have done so far."""

    def __init__(self, server_url: str, database_url: str) -> None:
        self._http = urllib3.PoolManager()
        self._server_url = server_url
        self._database_url = database_url

    def read(self) -> dict[str, float]:
        text = self._http.request("GET", f"{self._server_url}/metrics").data.decode()
        sums: dict[str, float] = {}
        for name, value in _COUNT.findall(text):
            sums[name] = sums.get(name, 0.0) + float(value)
        return {
            "requests": sums.get(_REQUESTS, 0.0),
            "statements": sums.get(_STATEMENTS, 0.0),
            **asyncio.run(self._of_database()),
        }

    async def _of_database(self) -> dict[str, float]:
        connection = await asyncpg.connect(self._database_url)
        try:
            row = await connection.fetchrow(
                "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS commits,"
                " wal_records FROM pg_stat_wal"
            )
            return {"commits": float(row["commits"]), "wal_records": float(row["wal_records"])}
        finally:
            await connection.close()


def _one_at_a_time(submit: Callable[[int], Any], calls: int) -> list[float]:
    return _timed(submit, range(calls))


def _threads(submit: Callable[[int], Any], calls: int) -> list[float]:
    shares = [range(place, calls, THREADS) for place in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as executor:
        parts = executor.map(partial(_timed, submit), shares)
        return [seconds for part in parts for seconds in part]


def _timed(submit: Callable[[int], Any], numbers: range) -> list[float]:
    seconds = []
    for number in numbers:
        began = time.perf_counter()
        assert submit(number).result(60) == number
        seconds.append(time.perf_counter() - began)
    return seconds


def _loop(submit: Callable[[int], Any], calls: int) -> list[float]:
    futures = [submit(number) for number in range(calls)]
    assert [future.result(60) for future in futures] == list(range(calls))
    return []


MODES: dict[str, tuple[Callable[[Callable[[int], Any], int], list[float]], float]] = {
    # How many calls, as a part of those of a loop.
    "one_at_a_time": (_one_at_a_time, 0.2),
    "threads": (_threads, 1.0),
    "loop": (_loop, 1.0),
}


def measure(client: Potluck, counts: Counts, calls: int, rounds: int) -> dict[str, object]:
    submit = potluck.task(client=client)(nothing).submit
    _timed(submit, range(20))
    return {
        name: _of_mode(run, submit, counts, max(1, int(calls * part)), rounds)
        for name, (run, part) in MODES.items()
    }


def _of_mode(
    run: Callable[[Callable[[int], Any], int], list[float]],
    submit: Callable[[int], Any],
    counts: Counts,
    calls: int,
    rounds: int,
) -> dict[str, object]:
    rates: list[float] = []
    waits: list[float] = []
    before = counts.read()
    for _ in range(rounds):
        began = time.perf_counter()
        waits += run(submit, calls)
        rates.append(calls / (time.perf_counter() - began))
    after = counts.read()
    each = {name: round((after[name] - before[name]) / (calls * rounds), 4) for name in after}
    waits.sort()
    latency = (
        {
            "p50_ms": round(1000 * statistics.median(waits), 2),
            "p99_ms": round(1000 * waits[int(len(waits) * 0.99)], 2),
        }
        if waits
        else {}
    )
    return {
        "calls": calls,
        "calls_per_s": round(statistics.median(rates)),
        "best_calls_per_s": round(max(rates)),
        **latency,
        "per_call": each,
    }


async def _measured(calls: int, rounds: int, directory: Path) -> dict[str, object]:
    postgres = EmbeddedPostgres(directory / "postgres")
    database_url = await postgres.start()
    try:
        return await asyncio.to_thread(_with_pool, calls, rounds, directory, database_url)
    finally:
        await postgres.stop()


def _with_pool(calls: int, rounds: int, directory: Path, database_url: str) -> dict[str, object]:
    wallet = new_wallet()
    serve = ("server", "--port", "0", "--data-dir", directory)
    variables = {"POTLUCK_OPERATOR": wallet.address, "POTLUCK_DATABASE_URL": database_url}
    with started(serve, variables, directory / "server.log") as server:
        url = server.first["url"]
        provide = ("provide", url, "--data-dir", directory)
        own = {"POTLUCK_WALLET_KEY": wallet.key}
        with started(provide, own, directory / "provider.log"):
            signed_in = sign_in(connect_anonymously(url), KeyWallet(bytes.fromhex(wallet.key)))
            with Potluck(url, signed_in.access_token) as client:
                return measure(client, Counts(url, database_url), calls, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast calls are, and what each costs.")
    parser.add_argument("--calls", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="which is what it prints anyway")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        measured = asyncio.run(_measured(given.calls, given.rounds, Path(directory)))
    print(json.dumps(measured, indent=2))


if __name__ == "__main__":
    main()
