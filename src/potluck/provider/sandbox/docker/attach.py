"""The streams of a container: the API connection is upgraded and carries raw bytes.

The container's output arrives in pieces whose header names the stream.
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
    """The streams of one container. `close` also closes the container's stdin."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._stderr = b""

    @property
    def last_words(self) -> str:
        """The stderr output; an init process writes there only if it cannot start."""
        return self._stderr.decode(errors="replace").strip()

    def write(self, data: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(data)

    async def drain(self) -> None:
        """Waits until the container has read most of the data written to it."""
        try:
            await self._writer.drain()
        except ConnectionError:
            return  # the reader notices the end

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
    """Call this before starting the container, so that no output is missed."""
    reader, writer = await asyncio.open_unix_connection(str(socket), limit=_HEADER_BYTES)
    try:
        query = "stream=1&stdin=1&stdout=1&stderr=1"
        writer.write(
            f"POST /containers/{container}/attach?{query} HTTP/1.1\r\nHost: engine\r\n"
            "Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n".encode()
        )
        async with asyncio.timeout(_ANSWER_SECONDS):
            response = await reader.readuntil(b"\r\n\r\n")
            is_upgraded = any(code in response.partition(b"\r\n")[0] for code in _TAKEN)
            refusal = b"" if is_upgraded else await _body(reader, response)
    except (asyncio.IncompleteReadError, ConnectionError, TimeoutError) as error:
        writer.close()
        raise EngineError(f"cannot attach to the container: {error}") from error
    if not is_upgraded:
        writer.close()
        raise EngineError(f"cannot attach to the container: {error_text(refusal)}")
    return Attachment(reader, writer)


async def _body(reader: asyncio.StreamReader, header: bytes) -> bytes:
    """Reads as many bytes as the header says, since the connection stays open."""
    length = re.search(rb"\r\ncontent-length: *(\d+)\r\n", header, re.IGNORECASE)
    if length is None:
        return await reader.read(_HEADER_BYTES)
    return await reader.readexactly(min(int(length[1]), _HEADER_BYTES))
