"""The streams of a container: the API's connection is taken over and carries bytes from then on.

What the container writes comes in pieces that say which stream they are of.
"""

import asyncio
import re
import struct
from collections.abc import AsyncIterator
from pathlib import Path

from potluck.provider.sandbox.docker.engine import EngineError, error_text

_PIECE = struct.Struct(">BxxxI")
_STDOUT, _STDERR = 1, 2
_HEADER_BYTES = 65_536
_LAST_WORDS_BYTES = 4_096
_TAKEN = (b" 101 ", b" 200 ")
_ANSWER_SECONDS = 30.0


class Attachment:
    """Of one container. `close` also closes the container's stdin."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._stderr = b""

    @property
    def last_words(self) -> str:
        """What was written to stderr, which only a first process that can not begin does."""
        return self._stderr.decode(errors="replace").strip()

    def write(self, data: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(data)

    async def drain(self) -> None:
        """Waits until the container has taken most of what was written to it."""
        try:
            await self._writer.drain()
        except ConnectionError:
            return  # its end is told by what is read

    async def stdout(self) -> AsyncIterator[bytes]:
        """Ends when the container does."""
        try:
            while True:
                stream, size = _PIECE.unpack(await self._reader.readexactly(_PIECE.size))
                data = await self._reader.readexactly(size)
                if stream == _STDOUT:
                    yield data
                elif stream == _STDERR:
                    self._stderr = (self._stderr + data)[:_LAST_WORDS_BYTES]
        except (asyncio.IncompleteReadError, ConnectionError):
            return

    def close(self) -> None:
        self._writer.close()


async def attach(socket: Path, container: str) -> Attachment:
    """Before the container is started, so that nothing of it is missed."""
    reader, writer = await asyncio.open_unix_connection(str(socket), limit=_HEADER_BYTES)
    try:
        query = "stream=1&stdin=1&stdout=1&stderr=1"
        writer.write(
            f"POST /containers/{container}/attach?{query} HTTP/1.1\r\nHost: engine\r\n"
            "Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n".encode()
        )
        async with asyncio.timeout(_ANSWER_SECONDS):
            answer = await reader.readuntil(b"\r\n\r\n")
            is_taken = any(code in answer.partition(b"\r\n")[0] for code in _TAKEN)
            refusal = b"" if is_taken else await _body(reader, answer)
    except (asyncio.IncompleteReadError, ConnectionError, TimeoutError) as error:
        writer.close()
        raise EngineError(f"the container can not be attached to: {error}") from error
    if not is_taken:
        writer.close()
        raise EngineError(f"the container can not be attached to: {error_text(refusal)}")
    return Attachment(reader, writer)


async def _body(reader: asyncio.StreamReader, header: bytes) -> bytes:
    """The connection stays open behind it, so it ends where the header says."""
    length = re.search(rb"\r\ncontent-length: *(\d+)\r\n", header, re.IGNORECASE)
    if length is None:
        return await reader.read(_HEADER_BYTES)
    return await reader.readexactly(min(int(length[1]), _HEADER_BYTES))
