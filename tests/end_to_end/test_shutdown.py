"""SIGTERM under load: what was accepted is answered, what waits ends, and the server is down."""

import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import urllib3

from potluck.server.postgres import running_url
from tests.end_to_end.load import submit_with_file
from tests.processes import (
    Api,
    ServerProcess,
    WholeServerProcess,
    await_true,
    frozen,
    postgres_processes,
)

CLIENTS = 8


class Clients:
    """They call on and on, over connections that they keep, and never repeat a request."""

    def __init__(self, server: ServerProcess) -> None:
        self._url, self._token = server.url, server.token
        self._stop = threading.Event()
        self.outcomes: Counter[str] = Counter()
        self.failed: list[str] = []
        self.acknowledged: list[str] = []
        self._threads = [threading.Thread(target=self._call_on) for _ in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def _call_on(self) -> None:
        client = Api(self._url, self._token)
        while not self._stop.is_set():
            try:
                self.acknowledged.append(client.submit("print(1)"))
                self.outcomes["answered"] += 1
            except urllib3.exceptions.NewConnectionError:
                self.outcomes["refused: the port is closed"] += 1
                return
            except Exception as error:  # noqa: BLE001 - shown by the test
                self.outcomes["failed"] += 1
                self.failed.append(repr(error))
        client.close()

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)


class Waiting:
    """A call that waits for something that does not happen; and how it ended."""

    def __init__(self, call: Callable[[], urllib3.BaseHTTPResponse]) -> None:
        self.outcome = ""
        self.body = b""
        self._call = call
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            response = self._call()
            self.body = response.data
            self.outcome = str(response.status)
        except Exception as error:  # noqa: BLE001 - shown by the test
            self.outcome = repr(error)

    def end(self) -> str:
        self._thread.join(60)
        return self.outcome


def test_every_accepted_request_is_answered(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    server = ServerProcess(
        tmp_path,
        POTLUCK_DRAIN_SECONDS="1",
        POTLUCK_POLL_SECONDS="60",
        POTLUCK_LEASE_SECONDS="90",
        POTLUCK_SILENT_AFTER_SECONDS="60",
        POTLUCK_QUOTA_QUEUED_TASKS="1000000",
    )
    with server:
        client = server.client()
        waits_for = submit_with_file(client, b"data")
        waiting = [
            Waiting(lambda: server.client().call("GET", f"/v1/tasks/{waits_for}/follow")),
            Waiting(lambda: server.client().call("GET", "/v1/events/follow")),
            Waiting(lambda: ask_for_result(server.client(), waits_for)),
        ]
        clients = Clients(server)
        await_true(lambda: len(clients.acknowledged) > 20 or clients.failed, "they are served")
        started = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        await_true(lambda: is_stopping(server), "/readyz says so")
        submitted_while_stopping = client.submit("print(2)")
        assert server.wait() == 0
        seconds = time.monotonic() - started
        clients.end()
        outcomes = [request.end() for request in waiting]
    assert clients.failed == []
    assert outcomes == ["200"] * len(waiting)
    assert b'"queued"' in waiting[0].body, "a stream ends with what it had"
    assert clients.outcomes["answered"] > 20 and seconds < 10
    with ServerProcess(tmp_path) as restarted_server:
        restarted_client = restarted_server.client()
        for task_id in [submitted_while_stopping, *clients.acknowledged[-50:]]:
            assert restarted_client.task(task_id)["state"] == "queued", "it was acknowledged"
    counted = ", ".join(f"{count} {outcome}" for outcome, count in clients.outcomes.items())
    record_property("tally", f"SIGTERM under load: {counted}; down after {seconds:.1f} s")


def ask_for_result(client: Api, task_id: str) -> urllib3.BaseHTTPResponse:
    results_request = {"tasks": [{"task_id": task_id}], "wait_seconds": 60}
    return client.call("POST", "/v1/results", json.dumps(results_request).encode())


def is_stopping(server: ServerProcess) -> bool:
    """A request that came before the signal is answered on a connection that stays open."""
    response = server.client("").call("GET", "/readyz")
    if response.json()["status"] != "stopping":
        return False
    assert response.status == 503
    return response.headers.get("Connection") == "close"


def test_a_hanging_database_does_not_delay_the_shutdown(tmp_path: Path) -> None:
    """It leads, so that duties wait for the database too. That one belongs to another server."""
    with WholeServerProcess(tmp_path / "other", POTLUCK_LEADER_SECONDS="2") as other:
        url = running_url(other.directory / "server" / "postgres")
        key = (other.directory / "server" / "encryption-key").read_text().strip()
        shared = {"POTLUCK_DATABASE_URL": url, "POTLUCK_ENCRYPTION_KEY": key}
        with ServerProcess(tmp_path / "own", **shared) as server, frozen(other.process.pid):
            await_true(lambda: leads(server), "it leads in place of the frozen one")
            with frozen(*postgres_processes(other.directory)):
                await_true(lambda: not is_ready(server), "it has noticed")
                started = time.monotonic()
                server.process.send_signal(signal.SIGTERM)
                assert server.wait() == 0 and time.monotonic() - started < 10


def leads(server: ServerProcess) -> bool:
    readiness = server.client("").get("/readyz")
    return bool(readiness["leader"] == readiness["instance"])


def is_ready(server: ServerProcess) -> bool:
    return server.client("").call("GET", "/readyz").status == 200
