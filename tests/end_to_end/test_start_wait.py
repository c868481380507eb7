"""A server that starts before its PostgreSQL or Redis, as after a power cut of all machines."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import redis

from tests.log_scanner import SCANNER
from tests.processes import FAST, PotluckProcess, await_true, free_port, potluck
from tests.redis_server import RedisServer


class LatePostgres:
    """A PostgreSQL that runs, at an address where it is not found until `start`."""

    def __init__(self, url: str) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="potluck-late-"))
        parts = urlsplit(url)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self._real = Path(query["host"])
        query["host"] = str(self._directory / "run")
        self.url = parts._replace(query=urlencode(query)).geturl()

    def start(self) -> None:
        (self._directory / "run").symlink_to(self._real)

    def close(self) -> None:
        shutil.rmtree(self._directory)


@pytest.fixture
def late(database_url: str) -> Iterator[LatePostgres]:
    postgres = LatePostgres(database_url)
    yield postgres
    postgres.close()


class StartingServer(PotluckProcess):
    """Its first line may tell that it waits."""

    def __init__(self, directory: Path, **environment: str) -> None:
        self.log, self.port, self.directory = directory / "log", free_port(), directory / "server"
        directory.mkdir(exist_ok=True)
        super().__init__(server_arguments(self.directory, self.port), environment, self.log)

    def next_event(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def is_closed(self) -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) != 0

    def waits(self) -> list[Any]:
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line[:1] == "{"]
        return [line for line in lines if line["event"] == "waiting"]


def server_arguments(directory: Path, port: int) -> list[str]:
    return ["server", "--port", str(port), "--data-dir", str(directory)]


def ended(directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A server that does not start."""
    return subprocess.run(
        potluck(*server_arguments(directory, free_port()), "--json"),
        env={**os.environ, **FAST, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def error_of(process: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(process.stdout.splitlines()[-1])["error"]


def test_the_server_waits_for_postgresql_and_starts_when_it_is_available(
    late: LatePostgres, tmp_path: Path
) -> None:
    with StartingServer(tmp_path, POTLUCK_DATABASE_URL=late.url) as server:
        assert (server.first["event"], server.first["service"]) == ("waiting", "PostgreSQL")
        assert server.is_closed() and len(server.waits()) == 1
        late.start()
        assert server.next_event()["event"] == "ready"
        assert not server.is_closed()


def test_the_server_waits_for_redis_and_starts_when_it_is_available(
    database_url: str, own_redis: RedisServer, tmp_path: Path
) -> None:
    own_redis.kill()
    shared = {"POTLUCK_DATABASE_URL": database_url, "POTLUCK_REDIS_URL": own_redis.url}
    with StartingServer(tmp_path, **shared) as server:
        assert (server.first["event"], server.first["service"]) == ("waiting", "Redis")
        assert server.is_closed()
        own_redis.start()
        assert server.next_event()["event"] == "ready"


def test_the_server_starts_without_redis_after_the_wait(
    database_url: str, own_redis: RedisServer, tmp_path: Path
) -> None:
    own_redis.kill()
    shared = {"POTLUCK_DATABASE_URL": database_url, "POTLUCK_REDIS_URL": own_redis.url}
    with StartingServer(tmp_path, **shared, POTLUCK_START_WAIT_SECONDS="0") as server:
        assert server.first["event"] == "ready"
        assert "starting without Redis" in server.log.read_text()


def test_without_postgresql_the_start_times_out_with_a_sentence(
    late: LatePostgres, tmp_path: Path
) -> None:
    process = ended(
        tmp_path / "server", POTLUCK_DATABASE_URL=late.url, POTLUCK_START_WAIT_SECONDS="0.2"
    )
    error = error_of(process)
    assert (process.returncode, error["code"]) == (75, "unavailable")
    assert "does not answer" in error["detail"] and "waited 0.2 s" in error["detail"]


def test_a_signal_ends_the_wait_at_once_and_nothing_is_left(
    late: LatePostgres, tmp_path: Path
) -> None:
    with StartingServer(tmp_path, POTLUCK_DATABASE_URL=late.url) as server:
        assert server.stop() == 0 and "Traceback" not in server.log.read_text()
    late.start()
    with StartingServer(tmp_path, POTLUCK_DATABASE_URL=late.url) as second_server:
        assert second_server.first["event"] == "ready", "the directory is free"


def with_password(url: str, password: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"{parts.username}:{password}@").geturl()


def test_a_wrong_password_ends_the_start_at_once(database_url: str, tmp_path: Path) -> None:
    wrong = with_password(database_url, "wrong")
    process = ended(tmp_path / "server", POTLUCK_DATABASE_URL=wrong)
    assert process.returncode == 78 and "waiting" not in process.stdout + process.stderr
    assert "password authentication failed" in error_of(process)["detail"]


def test_a_redis_that_refuses_ends_the_start_at_once(
    database_url: str, own_redis: RedisServer, tmp_path: Path
) -> None:
    with redis.Redis.from_url(own_redis.url) as client:
        client.config_set("requirepass", "right")
    wrong = {"POTLUCK_REDIS_URL": f"{own_redis.url}?password=wrong"}
    process = ended(tmp_path / "server", POTLUCK_DATABASE_URL=database_url, **wrong)
    assert process.returncode == 78 and "waiting" not in process.stdout + process.stderr
    assert "username-password" in error_of(process)["detail"]


def test_up_shows_which_service_it_waits_for(late: LatePostgres, tmp_path: Path) -> None:
    log = tmp_path / "up.log"
    SCANNER.watch(log)
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            potluck("up", "--no-provider", "--port", "0", "--data-dir", tmp_path / "data"),
            env={
                **os.environ,
                **FAST,
                "POTLUCK_DATABASE_URL": late.url,
                "POTLUCK_CONFIG_DIR": str(tmp_path / "config"),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
    try:
        await_true(lambda: "waiting for PostgreSQL" in log.read_text(), "it is shown")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
