"""One search finds everything about a task or a request, in the logs of all programs."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.databases import Databases
from tests.end_to_end.test_readiness import execute
from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess, await_true

VERBOSE = {"POTLUCK_LOG_LEVEL": "debug", "POTLUCK_ERROR_LOG_SECONDS": "0.1"}


class LoggedPool:
    def __init__(self, directory: Path, url: str, stack: ExitStack) -> None:
        self.directory, self.url = directory, url
        self.server = stack.enter_context(
            ServerProcess(directory, 0, POTLUCK_DATABASE_URL=url, **VERBOSE)
        )
        environment = {**FAST_PROVIDER, "POTLUCK_PROVIDER_LOG_LEVEL": "info"}
        self.provider = stack.enter_context(
            ProviderProcess(directory / "box", self.server, **environment)
        )

    def lines(self, part: str, **having: str) -> list[dict[str, Any]]:
        """The entries of a program's log that have these values."""
        path = {"server": self.directory / "server.log"}.get(
            part, self.directory / "box" / "provider.log"
        )
        entries = [json.loads(line) for line in path.read_text().splitlines() if line[:1] == "{"]
        return [entry for entry in entries if having.items() <= entry.items()]


@pytest.fixture(scope="module")
def pool(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoggedPool]:
    with databases.fresh() as url, ExitStack() as stack:
        yield LoggedPool(tmp_path_factory.mktemp("logs"), url, stack)


def test_a_task_is_found_by_its_id_in_every_log(pool: LoggedPool) -> None:
    """Its request leads to its id, and its id to its attempt."""
    client = pool.server.client()
    body = {"spec": {"kind": "script", "filename": "hello.py", "source": "print(1)"}}
    response = client.call(
        "POST", "/v1/tasks", json.dumps(body).encode(), X_Request_Id="from-the-client.7"
    )
    assert response.headers["X-Request-Id"] == "from-the-client.7"
    task_id = response.json()["id"]
    client.finished(task_id)
    (submitted,) = pool.lines("server", request_id="from-the-client.7")
    assert (submitted["event"], submitted["task_id"]) == ("task submitted", task_id)
    await_true(lambda: len(pool.lines("provider", task_id=task_id)) == 2, "both ends are logged")
    on_server = [line["event"] for line in pool.lines("server", task_id=task_id)]
    on_provider = [line["event"] for line in pool.lines("provider", task_id=task_id)]
    assert on_server == ["task submitted", "task assigned", "attempt ended"]
    assert on_provider == ["attempt starts", "attempt ended"]
    attempts = {line["attempt_id"] for line in pool.lines("server", task_id=task_id)[1:]}
    attempts |= {line["attempt_id"] for line in pool.lines("provider", task_id=task_id)}
    assert len(attempts) == 1


@pytest.mark.parametrize("given_id", ["", "with spaces", "x" * 65, 'quo"te', "ümlaut"])
def test_an_id_that_is_not_a_plain_word_is_replaced(pool: LoggedPool, given_id: str) -> None:
    text = given_id.encode().decode("latin-1")
    response = pool.server.client("").call("GET", "/healthz", X_Request_Id=text)
    request_id = response.headers["X-Request-Id"]
    assert request_id != given_id and len(request_id) == 16


def test_an_error_is_logged_once_with_its_request_and_is_counted(pool: LoggedPool) -> None:
    client = pool.server.client()
    execute(pool.url, "ALTER TABLE invites RENAME TO hidden_invites")
    try:
        responses = [
            client.call("GET", "/v1/invites", X_Request_Id=f"failing-{n}") for n in range(3)
        ]
    finally:
        execute(pool.url, "ALTER TABLE hidden_invites RENAME TO invites")
    assert {response.status for response in responses} == {500}
    assert "(request failing-0)" in responses[0].json()["detail"]
    (line,) = pool.lines("server", request_id="failing-0")
    assert line["event"] == "request failed" and "UndefinedTableError" in line["exception"]

    def counted() -> list[dict[str, Any]]:
        groups = client.get("/v1/errors")["errors"]
        return [group for group in groups if group["kind"] == "UndefinedTableError"]

    await_true(lambda: counted() and counted()[0]["occurrences"] == 3, "all three are counted")
    (group,) = counted()
    assert group["place"] == "potluck.store.identity.invites.list_open"
    assert "hidden" not in group["message"] and "Traceback" in group["trace"]


def test_logs_for_people_are_a_setting(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, POTLUCK_LOG_STYLE="text"):
        pass
    log = (tmp_path / "server.log").read_text()
    assert "ready" in log and not log.startswith("{")
    assert "\x1b" not in log, "a file has no colours"
