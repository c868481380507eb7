"""What is lost when parts of a pool with two servers fail under load.

Clients submit and read without a pause while something is killed. Acknowledged is what a client was
told; lost is what of that the database does not have afterwards; failed calls are errors that
remained after the client's own retries.

    python -m bench.failover [--count 200] [--json]
"""

import argparse
import json
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.databases import Databases, embedded_databases
from tests.deploy.instances import Instances, instances
from tests.deploy.load import Load
from tests.deploy.proxies import PROXIES, running_proxy
from tests.deploy.replicas import ReplicatedPostgres, replicated_postgres
from tests.deploy.sentinels import watched_redis
from tests.processes import ServerProcess
from tests.redis_server import RedisServer


class Row(NamedTuple):
    part: str
    fault: str
    acknowledged: int
    lost: int
    failed_calls: int
    longest_call_seconds: float


def measure(
    part: str, fault: str, load: Load, count: int, database_url: str, act: Callable[[], None]
) -> Row:
    with load:
        load.await_more(count)
        act()
        load.await_more(count)
    lost = load.lost(database_url)
    longest = round(load.longest_seconds, 1)
    return Row(part, fault, len(load.acknowledged), lost, len(load.failures), longest)


def through_proxies(count: int, directory: Path, databases: Databases) -> Iterator[Row]:
    redis = RedisServer()
    redis.start()
    try:
        with databases.fresh() as url, instances(directory, url, redis.url) as pool:
            os.environ["POTLUCK_CA_FILE"] = str(pool.ca_file)
            for number, proxy in enumerate(PROXIES):
                with running_proxy(proxy, pool.place):
                    yield kill_instance(proxy, pool, number % 2, count)
            os.environ.pop("POTLUCK_CA_FILE")
    finally:
        redis.close()


def kill_instance(proxy: str, pool: Instances, number: int, count: int) -> Row:
    load = Load([pool.place.url], pool.sign_in())
    part = f"{proxy}, PgBouncer with a pool of four"
    fault = "kill -9 of one server"
    row = measure(part, fault, load, count, pool.database_url, lambda: pool.kill(number))
    pool.start(number)
    pool.await_both()
    return row


@contextmanager
def two_servers(directory: Path, **shared: str) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    with (
        ServerProcess(directory / "one", 0, **shared) as one,
        ServerProcess(directory / "two", 0, **shared) as two,
    ):
        yield one, two


def promoted(count: int, directory: Path, kind: str) -> Row:
    def fail(postgres: ReplicatedPostgres, load: Load) -> None:
        if kind == "lagging":
            postgres.stop_following()
            load.await_more(50)
        postgres.kill_primary()
        postgres.promote()

    with (
        replicated_postgres(synchronous=kind == "synchronous") as postgres,
        two_servers(directory, POTLUCK_DATABASE_URL=postgres.url) as (one, two),
    ):
        load = Load([one.url, two.url], one.token)
        part = f"PostgreSQL, {kind} standby"
        fault = "kill -9 of the primary, standby promoted"
        url = postgres.standby_url
        return measure(part, fault, load, count, url, lambda: fail(postgres, load))


def redis_fail_over(count: int, directory: Path, databases: Databases) -> Row:
    with ExitStack() as stack:
        redis = stack.enter_context(watched_redis(directory / "redis"))
        url = stack.enter_context(databases.fresh())
        shared = {"POTLUCK_DATABASE_URL": url, "POTLUCK_REDIS_URL": redis.url}
        one, two = stack.enter_context(two_servers(directory, **shared))
        load = Load([one.url, two.url], one.token)
        fault = "kill -9 of the primary, replica promoted by Sentinels"
        return measure("Redis", fault, load, count, url, redis.kill_primary)


def rows(count: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as temporary, embedded_databases() as databases:
        places = (Path(temporary) / secrets.token_hex(4) for _ in range(9))
        place = next(places)
        place.mkdir()
        yield from through_proxies(count, place, databases)
        for kind in ("synchronous", "asynchronous", "lagging"):
            yield promoted(count, next(places), kind)
        yield redis_fail_over(count, next(places), databases)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="submissions before and after")
    parser.add_argument("--json", action="store_true", help="one JSON object a row")
    options = parser.parse_args()
    form = "{:<46} {:<55} {:>12} {:>5} {:>12} {:>9}"
    if not options.json:
        print(form.format("part", "fault", "acknowledged", "lost", "failed calls", "longest"))
    for row in rows(options.count):
        cells = (*row[:-1], f"{row.longest_call_seconds} s")
        print(json.dumps(row._asdict()) if options.json else form.format(*cells), flush=True)


if __name__ == "__main__":
    main()
