"""Real PostgreSQL and Redis for the tests that ask for them, one of each per test process.

Everything started here ends with the tests, also when they fail, and by its own pid.
"""

import gc
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import structlog

from tests.case_counts import show_tallies
from tests.clusters import CLUSTERS
from tests.databases import (
    SHARED,
    Databases,
    find_system_postgres,
    remove_what_the_dead_left,
    system_databases,
)
from tests.log_scanner import SCANNER
from tests.public_data import add_option
from tests.redis_server import RedisServer

# Where bytecode is not kept, each of the hundreds of processes that tests start compiles all anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# A background job of a shell starts with SIGINT ignored, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
# How long an example takes depends on what else the machine does.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")
# Plain tracebacks, as in the product: one with the values of variables takes a second.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
    ]
)


def pytest_addoption(parser: pytest.Parser) -> None:
    add_option(parser)
    parser.addoption("--failed-tests", metavar="FILE", help="write the failed tests, one per line")


def pytest_collection_finish() -> None:
    """Half a million objects stay until the end; each look through them takes a quarter second."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    show_tallies(terminalreporter)
    if path := terminalreporter.config.getoption("--failed-tests"):
        reports = [*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")]
        failed = sorted({f"{report.nodeid}\n" for report in reports})
        Path(path).write_text("".join(failed))


@pytest.fixture(scope="session")
def databases() -> Databases:
    return SHARED.get()


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """A fresh, migrated database in the embedded PostgreSQL."""
    with databases.fresh() as url:
        yield url


@pytest.fixture(scope="session", autouse=True)
def _memory() -> None:
    remove_what_the_dead_left()


@pytest.fixture(autouse=True)
def _logs_without_secrets() -> Iterator[None]:
    """What servers and providers have logged contains no token, key, signature or secret."""
    yield
    secrets = SCANNER.scan()
    assert not secrets, f"secrets are in logs: {secrets}"


@pytest.fixture(scope="session", autouse=True)
def _last_logs_without_secrets() -> Iterator[None]:
    """Of processes that ended after the last test that used them."""
    yield
    secrets = SCANNER.scan()
    assert not secrets, f"secrets are in logs: {secrets}"


@pytest.fixture(scope="session", autouse=True)
def _postgres() -> Iterator[None]:
    yield
    CLUSTERS.close()
    SHARED.close()


@pytest.fixture(scope="session")
def debian_databases() -> Iterator[Databases]:
    programs = find_system_postgres()
    if programs is None:
        need("PostgreSQL 15 or later in /usr/lib/postgresql")
        return
    with system_databases(programs) as databases:
        yield databases


@pytest.fixture
def debian_postgres_url(debian_databases: Databases) -> Iterator[str]:
    """A fresh, migrated database in the PostgreSQL that the system brings (Debian 12: 15)."""
    with debian_databases.fresh() as url:
        yield url


@pytest.fixture(scope="session")
def shared_redis() -> Iterator[RedisServer]:
    need_redis()
    server = RedisServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
def redis_url(shared_redis: RedisServer) -> str:
    """A Redis that is empty at the start of each test."""
    shared_redis.flush()
    return shared_redis.url


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    """A Redis that the test may kill and start again."""
    need_redis()
    server = RedisServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


def need_redis() -> None:
    if shutil.which("redis-server") is None:
        need("redis-server")


def need(requirement: str) -> None:
    """Without it a developer's run skips; where all must be there, it fails."""
    reason = f"{requirement} is missing; scripts/test-needs.sh installs it"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
