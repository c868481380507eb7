"""A place to install into: thrown away at the end, unless it was moved to the shelf.

Only the environment and the proxy's socket are shown inside the sandbox, which may run as another
user. Both are open to everybody, below a directory that only we can enter.
"""

import asyncio
import contextlib
import os
import socket
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from msgspec import Struct


class Stage(Struct, frozen=True):
    directory: Path
    name: str  # of the attempt that it is for

    @property
    def environment(self) -> Path:
        return self.directory / "environment"

    @property
    def socket_path(self) -> Path:
        return self.directory / "proxy.sock"

    async def empty(self) -> None:
        """A new, empty environment: a run finds nothing of an earlier one, which was another user.

        It is open to everybody, since nobody knows yet who that user will be.
        """
        await remove(self.environment)
        self.environment.mkdir()
        self.environment.chmod(0o777)

    def listen(self) -> socket.socket:
        """A socket for the proxy, fresh for each run."""
        self.socket_path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        # The whole path may be longer than a socket's address; a descriptor's never is.
        directory = os.open(self.directory, os.O_PATH | os.O_DIRECTORY)
        try:
            listener.bind(f"/proc/self/fd/{directory}/{self.socket_path.name}")
        finally:
            os.close(directory)
        self.socket_path.chmod(0o666)
        return listener


@contextlib.asynccontextmanager
async def staged(parent: Path, name: str) -> AsyncIterator[Stage]:
    parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    stage = Stage(Path(tempfile.mkdtemp(dir=parent)), name)
    try:
        yield stage
    finally:
        await remove(stage.directory)


async def remove(directory: Path) -> None:
    """Removes a tree that strangers have shaped: of any depth, and with any modes."""
    if directory.exists() and await _run("rm", "-rf", "--", str(directory)):
        await _run("chmod", "-R", "u+rwX", "--", str(directory))
        await _run("rm", "-rf", "--", str(directory))


async def _run(*command: str) -> int:
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, stdout=quiet, stderr=quiet)
    return await process.wait()
