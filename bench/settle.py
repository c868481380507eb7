"""What settling adds to the time of completing a task: the same task with and without a price.

    make bench-settle                        500 tasks of each kind, in about a minute
    python -m bench.settle --tasks 100       sooner

The flow of the server runs in this process, on a PostgreSQL that syncs each commit to the disk.
Free and paid tasks alternate, so that whatever else the machine does concerns both. A paid task has
a hold, a charge, a reward, a fee and a refund; a free one has none. Also counts the statements that
PostgreSQL gets, and the ledger rows of 10,000 busy devices. Prints JSON.
"""

import argparse
import asyncio
import json
import logging
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import structlog

from bench.started import (
    SETTLE_SECONDS,
    LabelledProvider,
    access_token,
    complete_script,
    labelled_pool,
    new_wallet,
)
from potluck.blobs.directory import DirectoryBlobs
from potluck.consumer import Potluck
from potluck.decide.charges import DEFAULT_TIMES
from potluck.live.in_process import InProcessLive
from potluck.model.credit import MICRO
from potluck.server.chain.contract_wallet import ContractWallets
from potluck.server.derived_keys import derive_keys
from potluck.server.egress.allow_list import read_allowed
from potluck.server.egress.send import GuardedSender
from potluck.server.postgres.launcher import EmbeddedPostgres
from potluck.server.rate_limiter import Limiter
from potluck.server.services import Services
from potluck.server.settings import ServerSettings
from potluck.store import database as database_module
from potluck.store.database import Connection, Database
from potluck.store.schema import migrate
from potluck.store.sealing.vault import GivenKeys, KeyRing, Vault
from potluck.wire.provider import NodeRegistered, Started
from tests.server.flow.pool import Pool, done, lease_of, used
from tests.server.flow.schedule.arrays import place

MOST_PERCENT = 10.0
_WARM_UP = 30
_PRICES = {"free": 0, "paid": 3_600_000_000}
_DAY, _DEVICES = 86_400, 10_000
T = TypeVar("T")


class Meter:
    """Times and statements of each part, by kind of task."""

    def __init__(self) -> None:
        self.seconds: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self.statements: dict[str, dict[str, int]] = defaultdict(dict)
        self.sent = 0

    async def time(self, part: str, kind: str, work: Awaitable[T]) -> T:
        before, began = self.sent, time.perf_counter()
        result = await work
        self.seconds[part][kind].append(time.perf_counter() - began)
        self.statements[part][kind] = self.sent - before
        return result


def count_statements(meter: Meter) -> None:
    """Of all connections that are opened later."""
    prepare = database_module.prepare_connection

    async def prepare_counted(connection: Connection) -> None:
        await prepare(connection)
        connection.add_query_logger(lambda _: setattr(meter, "sent", meter.sent + 1))

    database_module.prepare_connection = prepare_counted


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[Pool]:
    postgres = EmbeddedPostgres(directory / "postgres")
    url = await postgres.start()
    try:
        await migrate(url)
        database, live = await Database.connect(url, 8), InProcessLive()
        settings = ServerSettings(data_directory=directory, fee_basis_points=250)
        services = Services(
            settings,
            database,
            live,
            DirectoryBlobs(directory / "blobs"),
            keys=derive_keys(b"secret" * 6),
            vault=Vault(GivenKeys("the benchmark", KeyRing([bytes(32)]))),
            origins=("http://127.0.0.1:8470",),
            limiter=Limiter(live, settings),
            contract_wallets=ContractWallets({}),
            authority_pem=None,
            outward=GuardedSender(read_allowed(["127.0.0.1"]), 2.0),
            instance="the benchmark",
            stopping=asyncio.Event(),
        )
        try:
            yield await Pool.open(services)
        finally:
            await live.close()
            await database.close()
    finally:
        await postgres.stop()


async def complete(pool: Pool, node: NodeRegistered, kind: str, meter: Meter) -> None:
    """One task, from its submission to its end."""
    began = time.perf_counter()
    task = await meter.time("submit", kind, pool.submit(run_seconds=100.0))
    assert await meter.time("assign", kind, place(pool, node, task.id, price=_PRICES[kind]))
    (grant,) = await meter.time("fetch", kind, pool.fetch(node.node_id))
    await meter.time("start", kind, pool.report(node.node_id, Started(lease_of(grant))))
    ended = done(grant, usage=used(0.001))
    assert await meter.time("end", kind, pool.report(node.node_id, ended)) == ["accepted"]
    meter.seconds["whole task"][kind].append(time.perf_counter() - began)
    parts = ("submit", "assign", "fetch", "start", "end")
    meter.statements["whole task"][kind] = sum(meter.statements[part][kind] for part in parts)


async def measure(tasks: int) -> dict[str, Any]:
    warm, meter = Meter(), Meter()
    count_statements(meter)
    with tempfile.TemporaryDirectory() as directory:
        async with opened(Path(directory)) as pool:
            await pool.give(pool.alice, 10**15)
            nodes = {
                kind: await pool.offer(price_micro_per_hour=price)
                for kind, price in _PRICES.items()
            }
            for turn in range(_WARM_UP + tasks):
                for kind in sorted(_PRICES, reverse=bool(turn % 2)):
                    used_meter = warm if turn < _WARM_UP else meter
                    await complete(pool, nodes[kind], kind, used_meter)
            rows = await pool.sql(
                "SELECT count(*) FROM ledger_entries WHERE attempt_id IS NOT NULL"
            )
    return {
        "parts": {part: _compare(meter, part) for part in meter.seconds},
        "ledger_rows_per_paid_task": rows / (_WARM_UP + tasks),
        "ledger_rows_a_day_of_10000_devices": _rows_a_day(),
    }


def measure_scripts(scripts: int) -> dict[str, float]:
    """Empty scripts through a server, a client and two providers with their sandboxes."""
    providers = {
        kind: LabelledProvider(("--price", str(price // MICRO))) for kind, price in _PRICES.items()
    }
    seconds: dict[str, list[float]] = {kind: [] for kind in _PRICES}
    with (
        tempfile.TemporaryDirectory() as directory,
        labelled_pool(Path(directory), providers) as (url, _, operator),
        Potluck(url, access_token(url, new_wallet())) as consumer,
    ):
        operator.admin.grant(consumer.account.me().id, 10**15)
        time.sleep(SETTLE_SECONDS)
        for turn in range(3 + scripts):
            for kind in sorted(_PRICES, reverse=bool(turn % 2)):
                began = time.perf_counter()
                complete_script(consumer, kind, "")
                seconds[kind].append(time.perf_counter() - began)
        charged = consumer.tasks.get(complete_script(consumer, "paid", "")).charge_micro
        assert charged > 0, "tasks were not paid"
    return _compare_times(seconds["free"][3:], seconds["paid"][3:])


def _compare(meter: Meter, part: str) -> dict[str, Any]:
    times = _compare_times(meter.seconds[part]["free"], meter.seconds[part]["paid"])
    return {**times, "statements": meter.statements[part]}


def _compare_times(free: list[float], paid: list[float]) -> dict[str, float]:
    """The median of the differences of neighbours: both met the same load of the machine."""
    more = statistics.median(b - a for a, b in zip(free, paid, strict=True))
    return {
        "free_ms": round(1000 * statistics.median(free), 3),
        "paid_ms": round(1000 * statistics.median(paid), 3),
        "more_ms": round(1000 * more, 3),
        "more_percent": round(100 * more / statistics.median(free), 1),
    }


def _rows_a_day() -> dict[str, int]:
    """A slice writes a charge and a reward, and two rows each for its hold, a release and a fee."""
    slices = round(_DEVICES * _DAY / DEFAULT_TIMES.slice_seconds)
    rows = {"without checkpoints or fee": 4, "with a checkpoint in each slice": 6, "and a fee": 8}
    return {name: slices * count for name, count in rows.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=500, help="of each kind")
    parser.add_argument("--scripts", type=int, default=100, help="of each kind")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    found = asyncio.run(measure(options.tasks))
    scripts = measure_scripts(options.scripts)
    measured = {"scripts": scripts, "server": found["parts"]["whole task"]}
    is_within_limit = {
        name: times["more_percent"] <= MOST_PERCENT for name, times in measured.items()
    }
    print(json.dumps({"is_within_limit": is_within_limit, "scripts": scripts, **found}, indent=2))


if __name__ == "__main__":
    main()
