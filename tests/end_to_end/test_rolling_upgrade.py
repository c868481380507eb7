"""Instances are upgraded one after the other, under load: what was acknowledged is done, once."""

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from uuid import uuid4

import pytest
import urllib3

from potluck.decide.invariants import check_invariants
from potluck.store import schema
from potluck.store.schema import Migration, read_migrations
from tests.databases import Databases
from tests.end_to_end import earlier_version
from tests.end_to_end.database_check import take
from tests.processes import (
    FAST_PROVIDER,
    Api,
    ProviderProcess,
    ServerProcess,
    await_true,
    free_port,
)

# What a later migration of this minor version may do, to the tables that every request reads.
ADDITIONS = """
ALTER TABLE accounts ADD COLUMN later text NOT NULL DEFAULT 'x';
ALTER TABLE tasks ADD COLUMN later integer;
ALTER TABLE attempts ADD COLUMN later integer NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN later timestamptz DEFAULT now();
ALTER TABLE devices ADD COLUMN later text;
ALTER TABLE events ADD COLUMN later text;
ALTER TABLE sessions ADD COLUMN later text;
ALTER TABLE node_keys ADD COLUMN later text;
CREATE TABLE later_things (id text PRIMARY KEY);
CREATE INDEX tasks_later ON tasks (later) WHERE later IS NOT NULL;
"""
LATER = "9000"
OF_A_LATER_VERSION = f"""
import potluck
from potluck.store import schema
potluck.__version__ = {".".join(["0", "2", "99"])!r}
known = schema.read_migrations()
schema.read_migrations = lambda: (*known, schema.Migration({LATER!r}, "later", {ADDITIONS!r}))
"""


def later_version(directory: Path) -> dict[str, str]:
    """Variables with which a process of ours is one with a further migration."""
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(OF_A_LATER_VERSION)
    path = [str(directory), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, path))}


class Load:
    """Submits tasks to the instances in turn until it is stopped, and repeats what fails.

    As a client behind a load balancer: a request goes to the next instance until one acknowledges.
    """

    def __init__(self, urls: list[str], token: str) -> None:
        self._clients = [Api(url, token) for url in urls]
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acknowledged: list[str] = []
        self.repeated = 0
        self.errors: list[str] = []

    def _run(self) -> None:
        clients = cycle(self._clients)
        while not self._stopped.is_set():
            key = uuid4().hex
            while not self._submit(next(clients), key):
                self.repeated += 1
                self._stopped.wait(0.05)
            self._stopped.wait(0.05)

    def _submit(self, client: Api, key: str) -> bool:
        spec = {"kind": "script", "filename": "s.py", "source": "print(1)"}
        try:
            response = client.post("/v1/tasks", {"spec": spec}, Idempotency_Key=key)
        except urllib3.exceptions.HTTPError:
            return False
        if "id" in response:
            self.acknowledged.append(response["id"])
        elif response["code"] != "unavailable":
            self.errors.append(response)
        return "id" in response

    def await_more(self, count: int) -> None:
        target_count = len(self.acknowledged) + count
        await_true(
            lambda: len(self.acknowledged) >= target_count, f"{count} more are acknowledged", 60
        )

    @contextmanager
    def running(self) -> Iterator["Load"]:
        self._thread.start()
        try:
            yield self
        finally:
            self._stopped.set()
            self._thread.join()
            for client in self._clients:
                client.close()


def await_all(client: Api, load: Load) -> None:
    """Everything that was acknowledged succeeds, and nothing else was made."""

    def is_done() -> bool:
        page = client.get("/v1/tasks?limit=1&state=queued&state=assigned&state=running")
        return bool(page.get("tasks") == [])

    await_true(is_done, "all tasks are finished", 120)
    submitted: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = client.get(f"/v1/tasks?limit=200{cursor and f'&cursor={cursor}'}")
        assert {task["state"] for task in page["tasks"]} == {"succeeded"}
        submitted += [task["id"] for task in page["tasks"]]
        cursor = page["next_cursor"]
    assert sorted(submitted) == sorted(load.acknowledged)


def is_ready(server: ServerProcess) -> bool:
    response = server.client("").call("GET", "/readyz")
    return response.status == 200 and response.json()["parts"]["migrations"] == "ok"


def test_an_instance_works_on_after_a_later_version_added_to_the_schema(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leads, and its statements were prepared for the tables as they were."""
    with ExitStack() as stack:
        server = stack.enter_context(ServerProcess(tmp_path, 0, POTLUCK_DATABASE_URL=database_url))
        stack.enter_context(ProviderProcess(tmp_path / "p", server, **FAST_PROVIDER))
        client = server.client()
        with Load([server.url], server.token).running() as load:
            load.await_more(5)
            migrations = (*read_migrations(), Migration(LATER, "later", ADDITIONS))
            monkeypatch.setattr(schema, "read_migrations", lambda: migrations)
            asyncio.run(schema.migrate(database_url))
            load.await_more(5)
        await_all(client, load)
        assert load.errors == [] and is_ready(server)
    log = (tmp_path / "server.log").read_text()
    assert "duty failed" not in log and "request failed" not in log, log[-5000:]


@pytest.mark.long
def test_two_instances_are_upgraded_one_after_the_other(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    """The one that leads is the last."""
    shared = {"POTLUCK_DATABASE_URL": database_url, "POTLUCK_REDIS_URL": redis_url}
    later = {**shared, **later_version(tmp_path / "change")}
    with ExitStack() as stack:
        ports = [free_port(), free_port()]
        first, second = (
            stack.enter_context(ServerProcess(tmp_path / str(port), port, **shared))
            for port in ports
        )
        for number, server in enumerate((first, second)):
            name = {"POTLUCK_PROVIDER_NAME": f"node-{number}"}
            provider = ProviderProcess(tmp_path / f"p{number}", server, **FAST_PROVIDER, **name)
            stack.enter_context(provider)
        load = Load([first.url, second.url], first.token)
        with load.running():
            load.await_more(20)
            assert second.stop() == 0
            second = stack.enter_context(ServerProcess(tmp_path / "second", ports[1], **later))
            load.await_more(20)
            assert is_ready(first) and is_ready(second)
            assert first.stop() == 0
            first = stack.enter_context(ServerProcess(tmp_path / "first", ports[0], **later))
            load.await_more(20)
        await_all(first.client(), load)
        assert load.errors == []
        for log in tmp_path.glob("*/server.log"):
            text = log.read_text()
            assert "duty failed" not in text and "request failed" not in text, text[-5000:]
    assert check_invariants(asyncio.run(take(database_url))) == []
    print(f"acknowledged {len(load.acknowledged)}, repeated {load.repeated}, lost 0")


@pytest.mark.long
def test_from_the_last_version_nothing_is_lost_though_tasks_pause(
    tmp_path: Path, databases: Databases, redis_url: str
) -> None:
    """0.1 cannot work with the schema of 0.2: its tasks end once all its instances are stopped."""
    earlier = earlier_version.extract(tmp_path / "earlier")
    with ExitStack() as stack:
        url = stack.enter_context(databases.empty())
        earlier_version.make_schema(url)
        shared = {"POTLUCK_DATABASE_URL": url, "POTLUCK_REDIS_URL": redis_url}
        ports = [free_port(), free_port()]
        first, second = (
            stack.enter_context(ServerProcess(tmp_path / str(port), port, **shared, **earlier))
            for port in ports
        )
        stack.enter_context(ProviderProcess(tmp_path / "p", first, **FAST_PROVIDER, **earlier))
        load = Load([first.url, second.url], first.token)
        with load.running():
            load.await_more(20)
            assert second.stop() == 0
            second = stack.enter_context(ServerProcess(tmp_path / "second", ports[1], **shared))
            load.await_more(5)
            assert first.stop() == 0
            first = stack.enter_context(ServerProcess(tmp_path / "first", ports[0], **shared))
            load.await_more(20)
        await_all(first.client(), load)
    print(f"acknowledged {len(load.acknowledged)}, repeated {load.repeated}, lost 0")
