"""The frames between the provider and `interpreter_main` inside: a letter, a size, the bytes.

    to it     L code                                   load this function; once
              J flags, seconds, variables              the next items belong to this attempt
              I first, count, offsets, arguments       call the function with each of these
              D number                                 the files of this answer were collected
    from it   R                                        loaded
              X error                                  not loaded, and why
              A item                                   this item runs; all before it are answered
              V files, seconds, first, values          return values of items (an item file)
              F files, seconds, item, error            this item failed

Data from inside is untrusted: sizes are bounded, and a malformed frame ends the run.
"""

import asyncio
import socket
from collections.abc import Iterable

from msgspec import Struct

from potluck.model.task import EndReason
from potluck.provider.functions.interpreter_main import HEADER, MOST_VALUE_BYTES
from potluck.provider.sandbox.driver import RunOutcome

_MOST_BYTES = MOST_VALUE_BYTES + 2**20
_PIECE_BYTES = 2**18
INTERFERED = RunOutcome(EndReason.SIGNAL, "it interfered with the process that calls the function")


class Frame(Struct, frozen=True):
    kind: bytes
    data: bytes


class ChannelClosed(Exception):
    """The other end is closed, or sent a malformed frame."""


class Channel:
    """A socket pair; `theirs` is handed over to the interpreter.

    Frames from a process that has ended are still received. So this uses no asyncio stream, which
    drops its buffer when a write fails or the other end left data unread.
    """

    def __init__(self) -> None:
        self._ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._ours.setblocking(False)
        self._unread = bytearray()
        self._is_sending = False

    async def send(self, kind: bytes, size: int, parts: Iterable[bytes]) -> None:
        """Sends one frame; `size` is the total of `parts`. After an interrupted send the channel
        is unusable."""
        assert not self._is_sending, "another frame is incomplete"
        self._is_sending = True
        loop, header = asyncio.get_running_loop(), HEADER.pack(kind, size)
        try:
            for part in parts:
                await loop.sock_sendall(self._ours, header + part)
                header = b""
            if header:
                await loop.sock_sendall(self._ours, header)
        except OSError as error:
            raise ChannelClosed from error
        self._is_sending = False

    async def receive(self) -> Frame:
        await self._receive_bytes(HEADER.size)
        kind, size = HEADER.unpack_from(self._unread)
        if size > _MOST_BYTES:
            raise ChannelClosed
        end = HEADER.size + size
        await self._receive_bytes(end)
        data = bytes(memoryview(self._unread)[HEADER.size : end])
        del self._unread[:end]
        return Frame(kind, data)

    async def _receive_bytes(self, size: int) -> None:
        """Safe to cancel: received bytes are kept."""
        loop = asyncio.get_running_loop()
        while len(self._unread) < size:
            try:
                data = await loop.sock_recv(self._ours, _PIECE_BYTES)
            except OSError as error:
                raise ChannelClosed from error
            if not data:
                raise ChannelClosed
            self._unread += data
            if len(self._unread) < size:
                await asyncio.sleep(0)  # lets others run during a large frame

    def close(self) -> None:
        self.theirs.close()
        self._ours.close()
