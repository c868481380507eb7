"""The frames between the provider and what serves a function inside: a letter, a size, the bytes.

    to it     L code                                   load this function; once
              J flags, seconds, variables              what comes now belongs to this attempt
              I first, count, offsets, arguments       call it with each of these
              D number                                 the files of this answer have been taken
    from it   R                                        loaded
              X error                                  not loaded, and why
              A item                                   all before it have been answered; it runs
              V files, seconds, first, values          these items returned these (an item file)
              F files, seconds, item, error            this item failed

What comes from inside may be anything: sizes are bounded, and what makes no sense ends the run.
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
INTERFERED = RunOutcome(EndReason.SIGNAL, "it interfered with what calls the function")


class Frame(Struct, frozen=True):
    kind: bytes
    data: bytes


class ChannelClosed(Exception):
    """Nobody answers any more, or what answers makes no sense."""


class Channel:
    """Both ends of it, until the other one has been handed over.

    What was said by one who has ended is still heard: so no stream of asyncio's, which forgets what
    it holds when a write fails or the other end has left something unread.
    """

    def __init__(self) -> None:
        self._ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._ours.setblocking(False)
        self._unread = bytearray()
        self._is_sending = False

    async def send(self, kind: bytes, size: int, parts: Iterable[bytes]) -> None:
        """`size` is that of all parts, which are sent as they come, and nothing in between: who is
        kept from sending them all leaves a channel that nobody can use."""
        assert not self._is_sending, "the rest of another frame is to come"
        self._is_sending = True
        loop, begun = asyncio.get_running_loop(), HEADER.pack(kind, size)
        try:
            for part in parts:
                await loop.sock_sendall(self._ours, begun + part)
                begun = b""
            if begun:
                await loop.sock_sendall(self._ours, begun)
        except OSError as error:
            raise ChannelClosed from error
        self._is_sending = False

    async def receive(self) -> Frame:
        await self._gather(HEADER.size)
        kind, size = HEADER.unpack_from(self._unread)
        if size > _MOST_BYTES:
            raise ChannelClosed
        end = HEADER.size + size
        await self._gather(end)
        data = bytes(memoryview(self._unread)[HEADER.size : end])
        del self._unread[:end]
        return Frame(kind, data)

    async def _gather(self, size: int) -> None:
        """Who is interrupted has lost nothing."""
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
                await asyncio.sleep(0)  # much is coming, and others have a turn

    def close(self) -> None:
        self.theirs.close()
        self._ours.close()
