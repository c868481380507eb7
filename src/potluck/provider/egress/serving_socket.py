"""Unix sockets of the provider that a sandbox's way out connects to."""

import asyncio
import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

Connections = set[asyncio.Task[None]]
_Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving_socket(
    parent: Path, handle: _Handle, connections: Connections, line_bytes: int
) -> AsyncIterator[Path]:
    """Serves on a new socket, whose path it yields; closes every connection at the end.

    Socket paths are limited in length, so it is not below `parent`, whose path may be long.
    """
    directory = Path(tempfile.mkdtemp(prefix=socket_prefix(parent)))
    path = directory / "egress.sock"

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        connections.add(connection)
        try:
            # An error in one connection affects its client only.
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await handle(reader, writer)
        finally:
            writer.close()
            connections.discard(connection)

    server = await asyncio.start_unix_server(accept, path, limit=line_bytes)
    try:
        yield path
    finally:
        server.close()
        open_ones = list(connections)
        for connection in open_ones:
            connection.cancel()
        await asyncio.gather(*open_ones, return_exceptions=True)
        shutil.rmtree(directory, ignore_errors=True)


def socket_prefix(parent: Path) -> str:
    """Of the names of socket directories; different for each provider on a machine."""
    return f"potluck-{hashlib.sha256(str(parent.resolve()).encode()).hexdigest()[:12]}-"


def leftover_directories(parent: Path) -> list[Path]:
    """Socket directories of an earlier process. Any user can create such a name."""
    return list(Path(tempfile.gettempdir()).glob(f"{socket_prefix(parent)}*"))


def remove_leftover_directories(parent: Path) -> None:
    """Touches only directories of our user."""
    for directory in leftover_directories(parent):
        with contextlib.suppress(OSError):
            status = directory.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                shutil.rmtree(directory, ignore_errors=True)
