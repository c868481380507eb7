"""The outer side of `container_proxy`: each connection of a container becomes one to the proxy.

The frames may be forged by the task. A connection that breaks the rules is reset, and there are
never more connections or bytes than the limits say.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from potluck.provider.sandbox.docker.attach import Attachment
from potluck.provider.sandbox.docker.container_init import frame
from potluck.provider.sandbox.docker.container_proxy import (
    AMOUNT,
    DATA,
    END,
    MOST_CONNECTIONS,
    NUMBER,
    OPEN,
    RESET,
    WINDOW,
    WINDOW_BYTES,
)

FRAMES = (OPEN, DATA, END, RESET, WINDOW)
_PIECE_BYTES = 65_536
Send = Callable[[bytes, bytes], Awaitable[None]]


class ProxyStreams:
    """The connections of one container."""

    def __init__(self, attachment: Attachment, proxy: Path) -> None:
        self._attachment = attachment
        self._proxy = proxy
        self._streams: dict[int, _ProxyStream] = {}

    def handle(self, kind: bytes, payload: bytes) -> None:
        """A frame from inside; raises ValueError if it is impossible."""
        if len(payload) < NUMBER.size:
            raise ValueError(payload)
        number = NUMBER.unpack_from(payload)[0]
        if kind == OPEN:
            self._open(number)
            return
        stream = self._streams.get(number)
        if stream is None:  # closed meanwhile
            return
        if kind == DATA:
            stream.take(payload[NUMBER.size :])
        elif kind == WINDOW and len(payload) == AMOUNT.size:
            stream.widen(AMOUNT.unpack(payload)[1])
        elif kind == END:
            stream.take(b"")
        elif kind == RESET:
            stream.stop()

    async def close(self) -> None:
        tasks = [stream.task for stream in self._streams.values() if stream.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _open(self, number: int) -> None:
        if number in self._streams or len(self._streams) >= 2 * MOST_CONNECTIONS:
            raise ValueError(number)
        stream = self._streams[number] = _ProxyStream(number, self._send)
        stream.task = asyncio.create_task(self._run(stream))
        # Also if it is cancelled before it begins.
        stream.task.add_done_callback(lambda _: self._streams.pop(number))

    async def _run(self, stream: "_ProxyStream") -> None:
        kind = RESET
        try:
            with suppress(OSError):
                await stream.run(self._proxy)
                kind = END
        finally:
            self._attachment.write(frame(kind, NUMBER.pack(stream.number)))

    async def _send(self, kind: bytes, payload: bytes) -> None:
        self._attachment.write(frame(kind, payload))
        await self._attachment.drain()


class _ProxyStream:
    """One connection; ends with the proxy's side, which decides when it is over."""

    def __init__(self, number: int, send: Send) -> None:
        self.number = number
        self.task: asyncio.Task[None] | None = None
        self._send = send
        self._window = WINDOW_BYTES
        self._wider = asyncio.Event()
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()  # an empty piece is the end
        self._unpassed_bytes = 0

    def take(self, data: bytes) -> None:
        self._unpassed_bytes += len(data)
        if self._unpassed_bytes > WINDOW_BYTES or self._waiting.qsize() > WINDOW_BYTES:
            self.stop()
        else:
            self._waiting.put_nowait(data)

    def widen(self, size_bytes: int) -> None:
        self._window = min(WINDOW_BYTES, self._window + size_bytes)
        self._wider.set()

    def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()

    async def run(self, proxy: Path) -> None:
        reader, writer = await asyncio.open_unix_connection(str(proxy))
        sending = asyncio.create_task(self._pass_on(writer))
        try:
            while data := await reader.read(await self._room()):
                self._window -= len(data)
                await self._send(DATA, NUMBER.pack(self.number) + data)
        finally:
            sending.cancel()
            writer.close()

    async def _room(self) -> int:
        """Waits until data may be sent; returns how much."""
        while not self._window:
            self._wider.clear()
            await self._wider.wait()
        return min(_PIECE_BYTES, self._window)

    async def _pass_on(self, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await self._waiting.get():
                writer.write(data)
                await writer.drain()
                self._unpassed_bytes -= len(data)
                await self._send(WINDOW, AMOUNT.pack(self.number, len(data)))
            writer.write_eof()
