"""Listens for the owner's commands."""

import asyncio
import hmac
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path

import msgspec
import structlog

from potluck.provider.control.message import Answer, CommandRefused, Request
from potluck.provider.control.socket_path import bind, unbind

log = structlog.get_logger()

Handle = Callable[[Request], AsyncGenerator[Answer]]

_LONGEST_LINE = 65_536
_ASK_SECONDS = 5.0
# How long open requests may still be answered at shutdown.
_CLOSE_SECONDS = 2.0
_DECODER = msgspec.json.Decoder(Request)


@asynccontextmanager
async def listening(data_directory: Path, handle: Handle) -> AsyncIterator[None]:
    """Answers commands inside the context; open requests get their result when it ends."""
    connections: set[asyncio.Task[None]] = set()
    bound, token = bind(data_directory)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own = asyncio.current_task()
        assert own is not None
        connections.add(own)
        try:
            await _talk(reader, writer, token, handle)
        finally:
            connections.discard(own)
            writer.close()

    server = await asyncio.start_server(talk, sock=bound, limit=_LONGEST_LINE)
    try:
        yield
    finally:
        server.close()
        unbind(data_directory)
        if connections:
            await asyncio.wait(connections, timeout=_CLOSE_SECONDS)
        for task in list(connections):
            task.cancel()


async def _talk(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str, handle: Handle
) -> None:
    try:
        async with asyncio.timeout(_ASK_SECONDS):
            if token and not hmac.compare_digest(await reader.readline(), f"{token}\n".encode()):
                return
            line = await reader.readline()
    except (OSError, ValueError, TimeoutError):
        return  # not one of our commands
    with suppress(OSError):  # the client is gone; the request is carried out anyway
        async with aclosing(_answers(line, handle)) as answers:
            async for answer in answers:
                writer.write(msgspec.json.encode(answer) + b"\n")
                await writer.drain()


async def _answers(line: bytes, handle: Handle) -> AsyncGenerator[Answer]:
    try:
        request = _DECODER.decode(line)
    except msgspec.DecodeError as error:
        log.warning("unknown command received", detail=str(error))
        yield CommandRefused(
            "This provider and the command have different versions.", "Restart the provider."
        )
        return
    async with aclosing(handle(request)) as answers:
        async for answer in answers:
            yield answer
