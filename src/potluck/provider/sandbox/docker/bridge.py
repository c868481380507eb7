"""Translates between the frames of `container_init` and the pipes and socket that drivers use.

Output is written to pipes, so that the log is read, limited and drained as in other drivers. The
companion's socket behaves as if the command held the other end. Output that precedes a message is
in the pipes before the message is passed on.
"""

import asyncio
import os
import socket
from contextlib import suppress
from pathlib import Path

from potluck.provider.egress.relay import PORT
from potluck.provider.sandbox.docker import container_init
from potluck.provider.sandbox.docker.attach import Attachment
from potluck.provider.sandbox.docker.container_init import FrameDecoder, frame
from potluck.provider.sandbox.docker.proxy_streams import FRAMES, ProxyStreams
from potluck.provider.sandbox.driver import cancel_all, wait_writable

_PIECE_BYTES = 1_048_576


class Bridge:
    """The bridge to one container. Call `close` when the container is gone."""

    def __init__(
        self, attachment: Attachment, companion: int | None, proxy: Path | None = None
    ) -> None:
        self._attachment = attachment
        self._proxy = None if proxy is None else ProxyStreams(attachment, proxy)
        self._companion = None if companion is None else socket.socket(fileno=os.dup(companion))
        if self._companion is not None:
            self._companion.setblocking(False)
        self.stdout, self._to_stdout = os.pipe()
        self.stderr, self._to_stderr = os.pipe()
        for descriptor in (self._to_stdout, self._to_stderr):
            os.set_blocking(descriptor, False)
        self._is_ready = False
        self.is_crowded = False  # more processes inside than allowed
        self.wait_status: int | None = None
        self._changed = asyncio.Event()
        self._is_over = asyncio.Event()
        self._tasks = [asyncio.create_task(self._relay_output())]

    @property
    def last_words(self) -> str:
        return self._attachment.last_words

    async def ready(self) -> bool:
        """Waits for the init process; False if it has exited instead."""
        await self._changed.wait()
        return self._is_ready

    def begin(
        self, command: list[str], variables: dict[str, str], stdin: str | None = None
    ) -> None:
        """Starts the command; it reads `stdin`, a file inside, if it has no companion."""
        if self._proxy is not None:
            self._attachment.write(frame(container_init.LISTEN, b"%d" % PORT))
        lines = "".join(f"{name}={value}\0" for name, value in variables.items())
        words = [self._stdin_kind(stdin), *map(_encode, command)]
        self._attachment.write(frame(container_init.VARIABLES, _encode(lines)))
        self._attachment.write(frame(container_init.COMMAND, b"\0".join(words)))
        if self._companion is not None:
            self._tasks.append(asyncio.create_task(self._relay_input(self._companion)))

    def count(self, most_processes: int) -> None:
        """Makes the init process count processes and report when there are more."""
        self._attachment.write(frame(container_init.CROWD, b"%d" % most_processes))

    def terminate(self) -> None:
        self._attachment.write(frame(container_init.TERMINATE))

    async def ended(self) -> None:
        """Returns when the command has ended, or the container is gone."""
        await self._is_over.wait()

    async def hang_up(self) -> None:
        """Disconnects, which ends the container. An engine may otherwise wait for us to read."""
        await cancel_all(*self._tasks)
        if self._proxy is not None:
            await self._proxy.close()
        self._attachment.close()

    async def close(self) -> None:
        await self.hang_up()
        self._close_streams()
        os.close(self.stdout)
        os.close(self.stderr)
        if self._companion is not None:
            self._companion.close()

    def _stdin_kind(self, file: str | None) -> bytes:
        if self._companion is None:
            return container_init.NOTHING if file is None else _encode(file)
        kind = self._companion.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE)
        return container_init.PACKETS if kind == socket.SOCK_SEQPACKET else container_init.STREAM

    async def _relay_output(self) -> None:
        frames = FrameDecoder()
        try:
            async for data in self._attachment.stdout():
                for kind, payload in frames.feed(data):
                    await self._handle(kind, payload)
        except ValueError:  # forged frames
            return
        finally:
            self._close_streams()
            self._shut_companion()
            self._changed.set()
            self._is_over.set()

    async def _handle(self, kind: bytes, payload: bytes) -> None:
        if kind == container_init.READY:
            self._is_ready = True
            self._changed.set()
        elif kind == container_init.STDOUT:
            await _write(self._to_stdout, payload)
        elif kind == container_init.STDERR:
            await _write(self._to_stderr, payload)
        elif kind == container_init.CROWD:
            self.is_crowded = True
        elif kind == container_init.MESSAGE:
            await self._send_to_companion(payload)
        elif kind == container_init.SILENCE:
            self._shut_companion()
        elif kind == container_init.EXIT:
            self.wait_status = parse_wait_status(payload)
            self._close_streams()
            self._is_over.set()
        elif kind in FRAMES and self._proxy is not None:
            self._proxy.handle(kind, payload)

    async def _send_to_companion(self, message: bytes) -> None:
        if self._companion is not None:
            with suppress(OSError):  # the companion has closed its end
                await asyncio.get_running_loop().sock_sendall(self._companion, message)

    def _shut_companion(self) -> None:
        """Signals end of file to the companion, also after the command was killed."""
        if self._companion is not None:
            with suppress(OSError):
                self._companion.shutdown(socket.SHUT_WR)

    async def _relay_input(self, companion: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            while data := await loop.sock_recv(companion, _PIECE_BYTES):
                self._attachment.write(frame(container_init.MESSAGE, data))
                await self._attachment.drain()
        self._attachment.write(frame(container_init.SILENCE))

    def _close_streams(self) -> None:
        for descriptor in {self._to_stdout, self._to_stderr} - {-1}:
            os.close(descriptor)
        self._to_stdout = self._to_stderr = -1


def parse_wait_status(payload: bytes) -> int:
    """Raises ValueError for an impossible status, since the command may forge frames."""
    status = int(payload)
    if not 0 <= status < 2**16 or not (os.WIFEXITED(status) or os.WIFSIGNALED(status)):
        raise ValueError(f"{status} is not a wait status")
    return status


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


async def _write(descriptor: int, data: bytes) -> None:
    """Writes everything, at the reader's pace."""
    rest = memoryview(data)
    while rest and descriptor >= 0:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            await wait_writable(descriptor)
        except BrokenPipeError:
            return
