"""Work for a server while something of it fails: what was acknowledged, and what is still there.

Clients retry as they always do. A failure is an error that a person would see after that.
"""

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Self

import asyncpg

from potluck.consumer import Patience, Potluck
from potluck.model.error import PotluckError
from potluck.model.task import Requirements, TaskRequest
from potluck.model.task_spec import ScriptSpec
from tests.processes import await_true

# No node has it, so these tasks stay where they are.
_REQUEST = TaskRequest(
    ScriptSpec("load.py", "print('load')"), requirements=Requirements(labels=("nobody=yes",))
)


class Load:
    """Clients that submit and read in turn, from the start of the block to its end."""

    def __init__(
        self, addresses: Sequence[str], token: str, clients: int = 4, tries: int = 4
    ) -> None:
        self.acknowledged: list[str] = []
        self.failures: list[str] = []
        self.longest_seconds = 0.0
        self._stop = threading.Event()
        patience = Patience(tries=tries)
        self._threads = [
            threading.Thread(target=self._work, args=(Potluck(address, token, patience),))
            for address, _ in zip(itertools.cycle(addresses), range(clients), strict=False)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(120)

    def await_more(self, count: int) -> None:
        """Returns when so many more are acknowledged."""
        target_count = len(self.acknowledged) + count
        await_true(lambda: len(self.acknowledged) >= target_count, f"{count} more submissions", 120)

    def lost(self, database_url: str) -> int:
        """How many acknowledged tasks the database does not have."""
        return len(self.acknowledged) - asyncio.run(_count(database_url, self.acknowledged))

    def _work(self, client: Potluck) -> None:
        with client:
            while not self._stop.is_set():
                self._try(lambda: self._submit(client))

    def _submit(self, client: Potluck) -> None:
        task = client.tasks.submit(_REQUEST)
        self.acknowledged.append(task.id)
        assert client.tasks.get(task.id).id == task.id

    def _try(self, call: Callable[[], None]) -> None:
        started = time.monotonic()
        try:
            call()
        except PotluckError as error:
            self.failures.append(f"{type(error).__name__}: {error}")
        self.longest_seconds = max(self.longest_seconds, time.monotonic() - started)


async def _count(database_url: str, ids: Sequence[str]) -> int:
    connection = await asyncpg.connect(database_url)
    try:
        query = "SELECT count(*) FROM tasks WHERE id = ANY($1)"
        count: int = await connection.fetchval(query, list(ids))
        return count
    finally:
        await connection.close()
