"""A process that owns an embedded PostgreSQL, to be killed: `owner.py DIRECTORY`."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from potluck.server.postgres import EmbeddedPostgres
from potluck.server.postgres.processes import find_processes


@contextmanager
def owner(directory: Path, uid: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """Started, perhaps as another user; it prints the address when PostgreSQL answers."""
    groups: list[int] | None = None if uid is None else []
    process = subprocess.Popen(
        [sys.executable, __file__, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        user=uid,
        group=uid,
        extra_groups=groups,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()
            for left_behind in find_processes(directory / "cluster" / "data"):
                left_behind.kill()


async def own(directory: Path) -> None:
    postgres = EmbeddedPostgres(directory)
    os.write(1, f"{await postgres.start()}\n".encode())
    await asyncio.to_thread(sys.stdin.read)  # until it is closed
    await postgres.stop()


if __name__ == "__main__":
    asyncio.run(own(Path(sys.argv[1])))
