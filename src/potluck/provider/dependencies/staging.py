"""Temporary directories for installations, removed at the end unless moved to the cache.

Only the environment is visible inside the sandbox, which may run as another user. It is accessible
to all users, below a directory that only we can enter.
"""

import asyncio
import contextlib
import os
import stat
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from msgspec import Struct


class Stage(Struct, frozen=True):
    name: str  # of the attempt
    directory: Path

    @property
    def environment(self) -> Path:
        return self.directory / "environment"

    async def empty(self) -> None:
        """Creates a new, empty environment, since each run has another user.

        It is accessible to all users, because the next run's user is not yet known.
        """
        await remove_trees(self.environment)
        self.environment.mkdir()
        self.environment.chmod(0o777)


@contextlib.asynccontextmanager
async def staged(parent: Path, name: str) -> AsyncIterator[Stage]:
    parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    stage = Stage(name, Path(tempfile.mkdtemp(dir=parent)))
    try:
        yield stage
    finally:
        await remove_trees(stage.directory)


async def remove_trees(*directories: Path) -> None:
    """Removes trees created by untrusted code, of any depth and with any modes.

    Follows no links: `rm` follows none, and `chmod -R` only those in its arguments.
    """
    if not directories or not await _run("rm", "-rf", "--", *map(str, directories)):
        return
    remaining = [str(directory) for directory in directories if _is_our_directory(directory)]
    if remaining:
        await _run("chmod", "-R", "u+rwX", "--", *remaining)
        await _run("rm", "-rf", "--", *remaining)


def _is_our_directory(path: Path) -> bool:
    with contextlib.suppress(OSError):
        status = path.lstat()
        return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return False


async def _run(*command: str) -> int:
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, stdout=quiet, stderr=quiet)
    return await process.wait()
