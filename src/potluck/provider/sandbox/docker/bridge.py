"""Between the frames of `first` and what the rest of the sandbox knows: pipes and a socket.

Streams come out of pipes, so that a log is read, limited and drained as everywhere; a companion's
socket is spoken to as if the command itself held the other end. What was written before a message
is in the pipes before the message is passed on.
"""

import asyncio
import os
import socket
from contextlib import suppress

from potluck.provider.sandbox.docker import container_init
from potluck.provider.sandbox.docker.attach import Attachment
from potluck.provider.sandbox.docker.container_init import FrameDecoder, frame
from potluck.provider.sandbox.driver import cancel_all, wait_writable

_PIECE_BYTES = 1_048_576


class Bridge:
    """To one container. `close` when it is gone."""

    def __init__(self, attachment: Attachment, companion: int | None) -> None:
        self._attachment = attachment
        self._companion = None if companion is None else socket.socket(fileno=os.dup(companion))
        if self._companion is not None:
            self._companion.setblocking(False)
        self.stdout, self._to_stdout = os.pipe()
        self.stderr, self._to_stderr = os.pipe()
        for descriptor in (self._to_stdout, self._to_stderr):
            os.set_blocking(descriptor, False)
        self._is_ready = False
        self.is_crowded = False  # there are more processes inside than there may be
        self.wait_status: int | None = None
        self._changed = asyncio.Event()
        self._is_over = asyncio.Event()
        self._tasks = [asyncio.create_task(self._bring_out())]

    @property
    def last_words(self) -> str:
        return self._attachment.last_words

    async def ready(self) -> bool:
        """Whether the first process stands at the gate; False when it has ended instead."""
        await self._changed.wait()
        return self._is_ready

    def begin(self, command: list[str], variables: dict[str, str]) -> None:
        """Lets the command begin."""
        lines = "".join(f"{name}={value}\0" for name, value in variables.items())
        words = [self._stdin_kind(), *map(_encoded, command)]
        self._attachment.write(frame(container_init.VARIABLES, _encoded(lines)))
        self._attachment.write(frame(container_init.COMMAND, b"\0".join(words)))
        if self._companion is not None:
            self._tasks.append(asyncio.create_task(self._bring_in(self._companion)))

    def count(self, most_processes: int) -> None:
        """Has them counted inside."""
        self._attachment.write(frame(container_init.CROWD, b"%d" % most_processes))

    def terminate(self) -> None:
        self._attachment.write(frame(container_init.TERMINATE))

    async def ended(self) -> None:
        """Returns when the command has, or the container has gone without a word of it."""
        await self._is_over.wait()

    async def hang_up(self) -> None:
        """Hears no more of it, which ends it. An engine may wait for us to hear all."""
        await cancel_all(*self._tasks)
        self._attachment.close()

    async def close(self) -> None:
        await self.hang_up()
        self._close_streams()
        os.close(self.stdout)
        os.close(self.stderr)
        if self._companion is not None:
            self._companion.close()

    def _stdin_kind(self) -> bytes:
        if self._companion is None:
            return container_init.NOTHING
        kind = self._companion.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE)
        return container_init.PACKETS if kind == socket.SOCK_SEQPACKET else container_init.STREAM

    async def _bring_out(self) -> None:
        frames = FrameDecoder()
        try:
            async for data in self._attachment.stdout():
                for kind, payload in frames.feed(data):
                    await self._take(kind, payload)
        except ValueError:  # not from our first process: whoever speaks for it is not heard
            return
        finally:
            self._close_streams()
            self._fall_silent()
            self._changed.set()
            self._is_over.set()

    async def _take(self, kind: bytes, payload: bytes) -> None:
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
            await self._tell_companion(payload)
        elif kind == container_init.SILENCE:
            self._fall_silent()
        elif kind == container_init.EXIT:
            self.wait_status = parse_wait_status(payload)
            self._close_streams()
            self._is_over.set()

    async def _tell_companion(self, message: bytes) -> None:
        if self._companion is not None:
            with suppress(OSError):  # he does not listen any more
                await asyncio.get_running_loop().sock_sendall(self._companion, message)

    def _fall_silent(self) -> None:
        """The companion hears the end, also of one that was killed."""
        if self._companion is not None:
            with suppress(OSError):
                self._companion.shutdown(socket.SHUT_WR)

    async def _bring_in(self, companion: socket.socket) -> None:
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


def parse_wait_status(told: bytes) -> int:
    """Raises ValueError for what no command ends with: others may speak for our first process."""
    status = int(told)
    if not 0 <= status < 2**16 or not (os.WIFEXITED(status) or os.WIFSIGNALED(status)):
        raise ValueError(f"{status} is no wait status")
    return status


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


async def _write(descriptor: int, data: bytes) -> None:
    """All of it, at the pace of whoever reads."""
    rest = memoryview(data)
    while rest and descriptor >= 0:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            await wait_writable(descriptor)
        except BrokenPipeError:
            return
