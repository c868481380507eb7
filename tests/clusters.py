"""PostgreSQL's cluster for servers that bring their own: copied, since to make one takes seconds.

What happens when one is made is for `tests/server/postgres/` and `tests/cli/test_end_to_end.py`.
"""

import asyncio
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from potluck.server.postgres import EmbeddedPostgres
from potluck.store.schema import migrate
from tests.databases import quick_directory


class Clusters:
    """One is made and migrated when the first is asked for."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._made: Path | None = None

    def put(self, data_directory: Path) -> None:
        """Where a server looks for it; one that is there stays."""
        if data_directory.exists():
            return
        data_directory.mkdir(mode=0o700, parents=True)
        self.copy_to(data_directory / "postgres")

    def copy_to(self, directory: Path) -> None:
        """Into what an `EmbeddedPostgres` will be given."""
        shutil.copytree(self._cluster(), directory, dirs_exist_ok=True)

    def close(self) -> None:
        self._made = None
        self._stack.close()

    def _cluster(self) -> Path:
        if self._made is None:
            directory = self._stack.enter_context(quick_directory()) / "postgres"
            # In a thread: who asks may be in a loop of its own.
            with ThreadPoolExecutor(1) as thread:
                thread.submit(asyncio.run, _make(directory)).result()
            self._made = directory
        return self._made


async def _make(directory: Path) -> None:
    postgres = EmbeddedPostgres(directory)
    try:
        await migrate(await postgres.start())
    finally:
        await postgres.stop()


CLUSTERS = Clusters()
