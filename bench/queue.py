"""How long submitting, listing, looking and cancelling take with many tasks in the queue.

    make bench-queue                          a million queued tasks of one account
    python -m bench.queue --tasks N --ended M   and M that have mostly ended, of many accounts

Fills a PostgreSQL of its own, starts a server on it, waits until the leader has loaded the queue,
and asks over HTTP, one request after the other, all kinds in turn. Prints JSON, in milliseconds.
`nothing` is a request that needs nothing but its turn: what the machine itself takes at that time.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from contextlib import closing
from datetime import timedelta
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from bench.seed import seed_tasks
from bench.take_over import sealed_spec, server, watch
from potluck.model.account import Role, Scope
from potluck.model.task import TaskState
from potluck.server.auth.tokens import KEY_PREFIX, new_secret, secret_hash
from potluck.server.postgres import EmbeddedPostgres
from potluck.store.database import Database
from potluck.store.identity import accounts, api_keys
from potluck.store.schema import migrate
from potluck.wire import routes

MOST_MS = 20.0
_SCRIPT = {"kind": "script", "filename": "bench.py", "source": "print(1)"}
# What listings are filtered by; the middle of the queue stands for a page that is far behind.
FILTERS: dict[str, list[tuple[str, str]]] = {
    "all": [],
    "one_state": [("state", "queued")],
    "a_rare_state": [("state", "expired")],
    "several_states": [("state", "queued"), ("state", "running"), ("state", "failed")],
    "name": [("name", "train.py")],
    "a_rare_name": [("name", "rare-99.py")],
    "name_and_state": [("name", "train.py"), ("state", "failed")],
    "kind": [("kind", "script")],
    "since_and_until": [("since", "2020-01-01T00:00:00Z"), ("until", "2030-01-01T00:00:00Z")],
}


class Asking:
    """One connection, one account, every answer timed."""

    def __init__(self, address: str, secret: str) -> None:
        parts = urlsplit(address)
        assert parts.hostname is not None, address
        self._connection = HTTPConnection(parts.hostname, parts.port, timeout=60)
        self._headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        self.took_ms: dict[str, list[float]] = {}

    def ask(self, kind: str, method: str, path: str, body: object = None) -> Any:
        sent = None if body is None else json.dumps(body).encode()
        began = time.perf_counter()
        self._connection.request(method, path, sent, self._headers)
        answer = self._connection.getresponse()
        said = answer.read()
        self.took_ms.setdefault(kind, []).append((time.perf_counter() - began) * 1000)
        assert answer.status < 300, (kind, answer.status, said)
        return json.loads(said)

    def close(self) -> None:
        self._connection.close()


def ask_everything(asking: Asking, requests: int, middle: str) -> None:
    """As many of each kind, in turn, so that none has the quiet moments to itself."""
    far = {"a_page_far_behind": [("cursor", middle)], **FILTERS}
    numbers = count()
    for _ in range(requests):
        wanted = {"spec": _SCRIPT, "name": f"bench-{next(numbers)}"}
        task_id = asking.ask("submit", *routes.SUBMIT_TASK, wanted)["id"]
        asking.ask("nothing", *routes.HEALTHZ)
        asking.ask("status", "GET", routes.GET_TASK.url(task_id=task_id))
        asking.ask("cancel", "POST", routes.CANCEL_TASK.url(task_id=task_id), {})
        for name, said in far.items():
            path = f"{routes.LIST_TASKS.path}?{urlencode(said)}"
            asking.ask(f"list_{name}", routes.LIST_TASKS.method, path)


async def fill(database: Database, tasks: int, ended: int) -> str:
    """The queue, and the secret of a key of the account that it belongs to."""
    secret = new_secret(KEY_PREFIX)
    async with database.transaction() as connection:
        account = await accounts.add(connection, "0x" + "be" * 20, [Role.CONSUMER])
        assert account is not None, "the database is a new one"
        scopes, year = [Scope.TASKS_READ, Scope.TASKS_WRITE], timedelta(days=365)
        await api_keys.add(connection, account.id, "bench", scopes, secret_hash(secret), year)
    spec, queued = sealed_spec(), TaskState.QUEUED
    async with database.transaction() as connection:
        await seed_tasks(connection, ended, sealed_spec=spec)
        await seed_tasks(
            connection, tasks, account_id=account.id, state=queued, sealed_spec=spec, begin=ended
        )
    async with database.transaction() as connection:
        await connection.execute("ANALYZE")
    return secret


async def measure(tasks: int, ended: int, requests: int, seconds: float) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="potluck-bench-") as name:
        directory = Path(name)
        postgres = EmbeddedPostgres(directory / "postgres")
        url = await postgres.start()
        try:
            await migrate(url)
            began = time.monotonic()
            database = await Database.connect(url)
            try:
                secret = await fill(database, tasks, ended)
            finally:
                await database.close()
            filled_s = time.monotonic() - began
            with server(url, directory) as (address, log):
                said, _ = await asyncio.to_thread(watch, address, log, seconds)
                took_ms = await asyncio.to_thread(ask, address, secret, requests)
        finally:
            await postgres.stop()
    loaded = said["the whole queue is loaded"]
    return {
        "tasks": tasks,
        "ended": ended,
        "requests_of_each_kind": requests,
        "filled_s": round(filled_s, 1),
        "loaded_s": loaded["seconds"],
        **{kind: told(times) for kind, times in took_ms.items()},
        "most_ms": MOST_MS,
        "over": [kind for kind, times in took_ms.items() if p99(times) > MOST_MS],
    }


def ask(address: str, secret: str, requests: int) -> dict[str, list[float]]:
    with closing(Asking(address, secret)) as asking:
        page = asking.ask("first", "GET", f"{routes.LIST_TASKS.path}?limit=500")
        ask_everything(asking, 3, page["next_cursor"])  # the first of each kind prepare it
        asking.took_ms.clear()
        ask_everything(asking, requests, page["next_cursor"])
        return asking.took_ms


def told(times: list[float]) -> dict[str, float]:
    return {
        "least_ms": round(min(times), 2),
        "p50_ms": round(statistics.median(times), 2),
        "p99_ms": round(p99(times), 2),
        "longest_ms": round(max(times), 2),
    }


def p99(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.99)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=1_000_000, help="that wait, of one account")
    parser.add_argument("--ended", type=int, default=0, help="mostly ended, of many accounts")
    parser.add_argument("--requests", type=int, default=500, help="of each kind")
    parser.add_argument("--seconds", type=float, default=300, help="for the leader to load them")
    parser.add_argument("--json", action="store_true", help="the only form there is")
    chosen = parser.parse_args()
    measured = measure(chosen.tasks, chosen.ended, chosen.requests, chosen.seconds)
    print(json.dumps(asyncio.run(measured), indent=2))


if __name__ == "__main__":
    main()
