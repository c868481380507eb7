"""One instance leads. However it goes, another leads within five seconds, and no harm is done.

With the times of production: a term of four seconds, renewed each second.
"""

import asyncio
import json
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from potluck.decide.invariants import check_invariants
from tests.end_to_end.database_check import take
from tests.end_to_end.network_namespace import Namespace, forwarder, namespace, why_not
from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess, await_true

IN_PRODUCTION = {
    "POTLUCK_LEADER_SECONDS": "4",
    "POTLUCK_LEADER_RENEW_SECONDS": "1",
    "POTLUCK_IDLE_TRANSACTION_SECONDS": "3",
}
MOST_SECONDS = 5.0


class Row:
    """The leader's row, and whatever else a test wants to see or hold, seen from outside."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._loop = asyncio.new_event_loop()
        self._connection = self._loop.run_until_complete(asyncpg.connect(url))

    def ask(self, statement: str) -> Any:
        return self._loop.run_until_complete(self._connection.fetchval(statement))

    @property
    def term(self) -> int:
        term: int = self.ask("SELECT term FROM leader")
        return term

    @contextmanager
    def held(self, statement: str) -> Iterator[None]:
        """Rows that somebody else has locked for a while."""
        lock_connection = self._loop.run_until_complete(asyncpg.connect(self._url))
        try:
            self._loop.run_until_complete(lock_connection.execute(f"BEGIN; {statement}"))
            yield
        finally:
            self._loop.run_until_complete(lock_connection.close())

    def check(self) -> None:
        """Every invariant holds."""
        assert check_invariants(self._loop.run_until_complete(take(self._url))) == []

    def close(self) -> None:
        self._loop.run_until_complete(self._connection.close())
        self._loop.close()


@pytest.fixture
def row(database_url: str) -> Iterator[Row]:
    leader_row = Row(database_url)
    try:
        yield leader_row
    finally:
        leader_row.close()


@pytest.fixture
def shared(database_url: str, redis_url: str) -> dict[str, str]:
    return {"POTLUCK_DATABASE_URL": database_url, "POTLUCK_REDIS_URL": redis_url, **IN_PRODUCTION}


def taken_over(row: Row, term: int, since: float) -> float:
    """After how many seconds another term has begun."""
    await_true(lambda: row.term > term, "another instance leads", MOST_SECONDS + 10)
    return time.monotonic() - since


def terms_led(server: ServerProcess) -> list[int]:
    """By its own account."""
    text = (server.directory / "server.log").read_text()
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [line["term"] for line in lines if line["event"] == "leading"]


def test_a_killed_leader_is_followed_within_five_seconds(
    tmp_path: Path, row: Row, shared: dict[str, str]
) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(ServerProcess(tmp_path / "one", 0, **shared))
        await_true(lambda: terms_led(first), "the first leads")
        second = stack.enter_context(ServerProcess(tmp_path / "two", 0, **shared))
        stack.enter_context(ProviderProcess(tmp_path / "p1", second, **FAST_PROVIDER))
        term, began = row.term, time.monotonic()
        first.kill()
        assert taken_over(row, term, began) <= MOST_SECONDS
        task_id = second.client().submit("print('still here')")
        assert second.client().finished(task_id)["state"] == "succeeded"
    row.check()


def test_a_leader_that_stops_midway_blocks_no_request(
    tmp_path: Path, row: Row, shared: dict[str, str]
) -> None:
    """It sits in an open transaction and holds the leader's row. When it wakes, it stands by."""
    with ExitStack() as stack:
        first = stack.enter_context(ServerProcess(tmp_path / "one", 0, **shared))
        await_true(lambda: terms_led(first), "the first leads")
        second = stack.enter_context(ServerProcess(tmp_path / "two", 0, **shared))
        stack.enter_context(ProviderProcess(tmp_path / "p1", second, **FAST_PROVIDER))
        client = second.client()
        with row.held("SELECT FROM nodes FOR UPDATE"):
            stuck_task = client.submit("print('caught in the middle')")
            await_true(lambda: row.ask(_WAITING_TO_ASSIGN), "the leader is about to assign it")
            term, began = row.term, time.monotonic()
            first.process.send_signal(signal.SIGSTOP)
        try:
            assert taken_over(row, term, began) <= MOST_SECONDS
            assert client.finished(stuck_task)["state"] == "succeeded"
            led = terms_led(first)
        finally:
            first.process.send_signal(signal.SIGCONT)
        later = [client.submit("print('afterwards')") for _ in range(3)]
        assert {client.finished(task_id)["state"] for task_id in later} == {"succeeded"}
        await_true(lambda: _has_stood_by(first), "it has noticed")
        assert (row.term, terms_led(first)) == (term + 1, led)
        assert row.ask("SELECT count(*) FROM attempts") == 4
    row.check()


_WAITING_TO_ASSIGN = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%FROM nodes%'
"""


def _has_stood_by(server: ServerProcess) -> bool:
    return "standing by" in (server.directory / "server.log").read_text()


@pytest.mark.long
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_a_leader_behind_a_cut_network_is_followed_within_five_seconds(
    tmp_path: Path, row: Row, database_url: str, redis_url: str, shared: dict[str, str]
) -> None:
    """Nothing is closed and nothing is refused: there is just silence."""
    with ExitStack() as stack:
        cable = stack.enter_context(namespace(1))
        addresses = _through(cable, database_url, redis_url, stack)
        first = stack.enter_context(_behind(cable, tmp_path / "one", addresses))
        await_true(lambda: terms_led(first), "the first leads")
        second = stack.enter_context(ServerProcess(tmp_path / "two", 0, **shared))
        stack.enter_context(ProviderProcess(tmp_path / "p1", second, **FAST_PROVIDER))
        client = second.client()
        with row.held("SELECT FROM nodes FOR UPDATE"):
            stuck_task = client.submit("print('caught in the middle')")
            await_true(lambda: row.ask(_WAITING_TO_ASSIGN), "the leader is about to assign it")
            term, began = row.term, time.monotonic()
            cable.cut()
        assert taken_over(row, term, began) <= MOST_SECONDS
        assert client.finished(stuck_task)["state"] == "succeeded"
        cable.mend()
        await_true(lambda: _has_stood_by(first), "it has noticed", 60)
        assert row.term == term + 1
        assert row.ask("SELECT count(*) FROM attempts") == 1
        first.kill()
    row.check()


def _through(
    cable: Namespace, database_url: str, redis_url: str, stack: ExitStack
) -> dict[str, str]:
    """Where PostgreSQL and Redis are at the other end of the cable."""
    database, redis = urlsplit(database_url), urlsplit(redis_url)
    (folder,) = parse_qs(database.query)["host"]
    (socket_path,) = Path(folder).glob(".s.PGSQL.*[0-9]")
    database_port = stack.enter_context(forwarder(cable.address, str(socket_path)))
    redis_port = stack.enter_context(forwarder(cable.address, redis.path))
    credentials, location = database.netloc.rpartition("@")[0], f"{cable.address}:{database_port}"
    return {
        "POTLUCK_DATABASE_URL": f"postgresql://{credentials}@{location}{database.path}?sslmode=disable",
        "POTLUCK_REDIS_URL": f"redis://{cable.address}:{redis_port}/0",
    }


def _behind(cable: Namespace, directory: Path, addresses: dict[str, str]) -> ServerProcess:
    """A server that reaches both through the cable alone."""

    class Behind(ServerProcess):
        prefix = cable.prefix

    return Behind(directory, 0, **addresses, **IN_PRODUCTION)
