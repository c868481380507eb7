"""A place to install into: thrown away at the end, unless it was moved to the shelf.

Only the environment and the proxy's socket are shown inside the sandbox, which may run as another
user. Both are open to everybody, below directories that only we can enter.
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
    name: str  # of the attempt that it is for
    directory: Path
    socket_directory: Path

    @property
    def environment(self) -> Path:
        return self.directory / "environment"

    @property
    def socket_path(self) -> Path:
        return self.socket_directory / "proxy.sock"

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
        listener.bind(str(self.socket_path))
        self.socket_path.chmod(0o666)
        return listener


@contextlib.asynccontextmanager
async def staged(parent: Path, name: str) -> AsyncIterator[Stage]:
    parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # A socket's path can not be long, so it does not lie below the parent, whose path may be.
    sockets = tempfile.mkdtemp(prefix=socket_prefix(parent))
    stage = Stage(name, Path(tempfile.mkdtemp(dir=parent)), Path(sockets))
    try:
        yield stage
    finally:
        await remove(stage.directory, stage.socket_directory)


async def remove_all_stages(parent: Path) -> None:
    """What earlier lives left there; nobody may be installing now.

    Everybody can make such a name among the temporary files, so only what is ours is touched.
    """
    sockets = Path(tempfile.gettempdir()).glob(f"{socket_prefix(parent)}*")
    await remove(parent, *filter(_is_our_directory, sockets))


async def remove(*directories: Path) -> None:
    """Removes trees that strangers have shaped: of any depth, and with any modes.

    No link is followed: `rm` follows none, and `chmod -R` none but those that it is given.
    """
    if not directories or not await _run("rm", "-rf", "--", *map(str, directories)):
        return
    shut = [str(directory) for directory in directories if _is_our_directory(directory)]
    if shut:
        await _run("chmod", "-R", "u+rwX", "--", *shut)
        await _run("rm", "-rf", "--", *shut)


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
    """Tells the sockets of one provider from those of another on the same machine."""
    return f"potluck-{hashlib.sha256(str(parent.resolve()).encode()).hexdigest()[:12]}-"
