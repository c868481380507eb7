"""Connects a listener inside a sandbox with the proxy's Unix socket.

Programs know proxies by host and port, so inside one listens on loopback. The listener was made in
the sandbox's own network, and is served from outside: no part of Potluck runs inside.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

PORT = 3128  # inside, where nothing else listens yet
_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_MOST_CONNECTIONS = 256
_CHUNK_BYTES = 65_536


def proxy_variables(port: int = PORT) -> dict[str, str]:
    """The variables by which programs find the proxy, in both spellings."""
    names = (*_NAMES, *(name.lower() for name in _NAMES))
    local = {"NO_PROXY": "localhost,127.0.0.1,::1", "no_proxy": "localhost,127.0.0.1,::1"}
    return {**dict.fromkeys(names, f"http://127.0.0.1:{port}"), **local}


async def relay_received(end: socket.socket, proxy: Path) -> None:
    """Serves the listener that comes through `end`, until it is cancelled."""
    with end:
        end.setblocking(False)
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()
        loop.add_reader(end, arrived.set)
        try:
            await arrived.wait()
        finally:
            loop.remove_reader(end)
        _, descriptors, _, _ = socket.recv_fds(end, 1, 1, socket.MSG_CMSG_CLOEXEC)
    if not descriptors:  # the command was not started
        return
    async with relaying(socket.socket(fileno=descriptors[0]), proxy):
        await asyncio.get_running_loop().create_future()


@contextlib.asynccontextmanager
async def relaying(listener: socket.socket, proxy: Path) -> AsyncIterator[None]:
    """Serves the listener inside this context; closes it and all connections at the end."""
    listener.setblocking(False)
    accepting = asyncio.create_task(_accept(listener, proxy))
    try:
        yield
    finally:
        accepting.cancel()
        await asyncio.gather(accepting, return_exceptions=True)
        listener.close()


async def _accept(listener: socket.socket, proxy: Path) -> None:
    loop = asyncio.get_running_loop()
    room = asyncio.Semaphore(_MOST_CONNECTIONS)
    async with asyncio.TaskGroup() as connections:
        while True:
            await room.acquire()
            accepted, _ = await loop.sock_accept(listener)
            connection = connections.create_task(_connect(accepted, proxy))
            connection.add_done_callback(lambda _: room.release())


async def _connect(accepted: socket.socket, proxy: Path) -> None:
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection(sock=accepted)
        try:
            their_reader, their_writer = await asyncio.open_unix_connection(str(proxy))
            try:
                sending = asyncio.create_task(_pipe(reader, their_writer))
                # The proxy decides when a connection is over.
                await _pipe(their_reader, writer)
                sending.cancel()
            finally:
                their_writer.close()
        finally:
            writer.close()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
