"""The encryption key changes while everything runs, and whatever is killed on the way."""

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import urllib3

from potluck.model.task_spec import ScriptSpec
from potluck.server.encryption.key_sources import KeyFile
from potluck.store.sealing.vault import Vault
from potluck.store.tasks.tasks import SPEC
from potluck.wire import codec, routes
from tests.processes import Api, ServerProcess, await_true

SUBMITTERS = 4
NO_LIMIT = {"POTLUCK_ACCOUNT_REQUESTS_PER_SECOND": "0"}


@pytest.fixture
def shared(tmp_path: Path, database_url: str) -> dict[str, str]:
    """What instances of one installation share: the database, and the file with its keys."""
    file = str(tmp_path / "encryption-key")
    return {"POTLUCK_DATABASE_URL": database_url, "POTLUCK_ENCRYPTION_KEY_FILE": file, **NO_LIMIT}


class Submitted:
    """What was acknowledged, and so must be there."""

    def __init__(self) -> None:
        self.sources: dict[str, str] = {}
        self._numbers = itertools.count()

    def one(self, api: Api) -> None:
        source = f"print({next(self._numbers)})"
        # No such device: the task stays in the queue, and what it says is kept.
        self.sources[api.submit(source, requirements={"device_model": "none such"})] = source


def rotate(api: Api) -> int:
    """As `potluck admin rotate-key` does; how many rows were rewritten."""
    rewritten, progress = 0, step(api, new_key=True)
    while progress["remaining"]:
        rewritten += progress["rewritten"]
        progress = step(api)
    return rewritten + int(progress["rewritten"])


def step(api: Api, new_key: bool = False) -> dict[str, Any]:
    response: dict[str, Any] = api.post(routes.ROTATE_KEY.path, {"new_key": new_key})
    assert "key_id" in response, response
    return response


@contextmanager
def all_along(act: Callable[[], None], threads: int) -> Iterator[None]:
    """Does it again and again, in so many threads, until the block ends."""
    enough = threading.Event()

    def work() -> None:
        while not enough.is_set():
            act()

    with ThreadPoolExecutor(threads) as workers:
        futures = [workers.submit(work) for _ in range(threads)]
        try:
            yield
        finally:
            enough.set()
        for future in futures:
            future.result()


def query(url: str, statement: str, *values: Any) -> list[Any]:
    async def ask() -> list[Any]:
        connection = await asyncpg.connect(url)
        try:
            rows: list[Any] = await connection.fetch(statement, *values)
        finally:
            await connection.close()
        return rows

    return asyncio.run(ask())


def sources(shared: dict[str, str]) -> dict[str, str]:
    """What the database says, opened with the keys that are in the file now."""
    vault = Vault(KeyFile(Path(shared["POTLUCK_ENCRYPTION_KEY_FILE"])))
    rows = query(shared["POTLUCK_DATABASE_URL"], "SELECT id, sealed_spec FROM tasks")
    opened = {row["id"]: vault.open(*SPEC, row["id"], row["sealed_spec"]) for row in rows}
    return {task: codec.decode_json(plain, ScriptSpec).source for task, plain in opened.items()}


def keys_of_rows(shared: dict[str, str]) -> dict[str, int]:
    statement = "SELECT encode(sealed_by, 'hex') AS key, count(*) FROM tasks GROUP BY 1"
    return {row["key"]: row["count"] for row in query(shared["POTLUCK_DATABASE_URL"], statement)}


async def until_used(shared: dict[str, str], key_id: str) -> None:
    """Looks as often as it can: the rewriting is over in a moment."""
    connection = await asyncpg.connect(shared["POTLUCK_DATABASE_URL"])
    statement = "SELECT EXISTS (SELECT FROM tasks WHERE sealed_by = decode($1, 'hex'))"
    try:
        async with asyncio.timeout(30):
            while not await connection.fetchval(statement, key_id):
                pass
    finally:
        await connection.close()


@pytest.mark.long
def test_two_rotations_under_load_lose_nothing(
    tmp_path: Path, shared: dict[str, str], redis_url: str
) -> None:
    """Two instances take tasks and list them all along; one of them is asked to rotate."""
    shared["POTLUCK_REDIS_URL"] = redis_url
    submitted = Submitted()
    with ExitStack() as stack:
        first = stack.enter_context(ServerProcess(tmp_path / "one", 0, **shared))
        second = stack.enter_context(ServerProcess(tmp_path / "two", 0, **shared))
        turns = itertools.cycle([first.client(), second.client()])

        def use() -> None:
            api = next(turns)
            submitted.one(api)
            assert api.call("GET", "/v1/tasks").status == 200

        with all_along(use, SUBMITTERS):
            await_true(lambda: len(submitted.sources) > 100, "there is something to rewrite")
            rewritten = rotate(first.client())
            between = len(submitted.sources)
            rewritten += rotate(first.client())
            await_true(lambda: len(submitted.sources) > between + 20, "it goes on")
        assert step(second.client())["remaining"] == 0, "the other instance has followed"
        current = step(first.client())["key_id"]
    assert rewritten > 200, "all that was there at first, twice"
    assert sources(shared) == submitted.sources
    assert keys_of_rows(shared) == {current: len(submitted.sources)}


def test_a_server_killed_during_a_rotation_resumes_it(
    tmp_path: Path, shared: dict[str, str]
) -> None:
    submitted = Submitted()
    with ServerProcess(tmp_path / "one", 0, **shared) as server:
        with ThreadPoolExecutor(SUBMITTERS) as workers:
            api = server.client()
            list(workers.map(lambda _: submitted.one(api), range(600)))
        rotation = step(server.client(), new_key=True)
        assert rotation["remaining"] == len(submitted.sources)
        with ThreadPoolExecutor(1) as worker:
            call = worker.submit(step, server.client())
            asyncio.run(until_used(shared, rotation["key_id"]))
            server.kill()
            assert isinstance(call.exception(), urllib3.exceptions.HTTPError | None)
    cut_short = keys_of_rows(shared)
    assert len(cut_short) == 2, f"it was killed in the middle: {cut_short}"
    assert sources(shared) == submitted.sources, "half of it by one key, half by the other"

    with ServerProcess(tmp_path / "one", 0, **shared) as server:
        while step(server.client())["remaining"]:
            pass
    assert keys_of_rows(shared) == {rotation["key_id"]: len(submitted.sources)}
    assert sources(shared) == submitted.sources
