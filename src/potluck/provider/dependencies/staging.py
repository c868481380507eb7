"""Temporary directories for installations, removed at the end unless moved to the cache.

Only the environment and the proxy's socket are visible inside the sandbox, which may run as another
user. Both are accessible to all users, below directories that only we can enter.
"""

import asyncio
import contextlib
import hashlib
import os
import socket
import stat
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from msgspec import Struct


class Stage(Struct, frozen=True):
    name: str  # of the attempt
    directory: Path
    socket_directory: Path

    @property
    def environment(self) -> Path:
        return self.directory / "environment"

    @property
    def socket_path(self) -> Path:
        return self.socket_directory / "proxy.sock"

    async def empty(self) -> None:
        """Creates a new, empty environment, since each run has another user.

        It is accessible to all users, because the next run's user is not yet known.
        """
        await remove_trees(self.environment)
        self.environment.mkdir()
        self.environment.chmod(0o777)

    def listen(self) -> socket.socket:
        """A new socket for the proxy of one run."""
        self.socket_path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.socket_path))
        self.socket_path.chmod(0o666)
        return listener


@contextlib.asynccontextmanager
async def staged(parent: Path, name: str) -> AsyncIterator[Stage]:
    parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Socket paths are limited in length, so it is not below the parent, whose path may be long.
    sockets = tempfile.mkdtemp(prefix=socket_prefix(parent))
    stage = Stage(name, Path(tempfile.mkdtemp(dir=parent)), Path(sockets))
    try:
        yield stage
    finally:
        await remove_trees(stage.directory, stage.socket_directory)


async def remove_all_stages(parent: Path) -> None:
    """Removes leftovers of earlier processes; no installation may be running.

    Any user can create such a temporary name, so only directories of our user are touched.
    """
    sockets = Path(tempfile.gettempdir()).glob(f"{socket_prefix(parent)}*")
    await remove_trees(parent, *filter(_is_our_directory, sockets))


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


def socket_prefix(parent: Path) -> str:
    """Different for each provider on a machine."""
    return f"potluck-{hashlib.sha256(str(parent.resolve()).encode()).hexdigest()[:12]}-"
