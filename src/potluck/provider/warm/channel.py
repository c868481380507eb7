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
from potluck.provider.sandbox.driver import Touched
from potluck.provider.warm.serve import HEADER, MOST_VALUE_BYTES

_MOST_BYTES = MOST_VALUE_BYTES + 2**20
INTERFERED = Touched(EndReason.SIGNAL, "it interfered with what calls the function")


class Frame(Struct, frozen=True):
    kind: bytes
    data: bytes


class Gone(Exception):
    """Nobody answers any more, or what answers makes no sense."""


class Channel:
    """Both ends of it, until the other one has been handed over."""

    def __init__(self) -> None:
        self._ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._is_sending = False

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(sock=self._ours)

    async def send(self, kind: bytes, size: int, parts: Iterable[bytes]) -> None:
        """`size` is that of all parts, which are sent as they come, and nothing in between: who is
        kept from sending them all leaves a channel that nobody can use."""
        assert self._writer is not None
        assert not self._is_sending, "the rest of another frame is to come"
        self._is_sending = True
        try:
            self._writer.write(HEADER.pack(kind, size))
            for part in parts:
                self._writer.write(part)
                await self._writer.drain()
        except OSError as error:
            raise Gone from error
        self._is_sending = False

    async def receive(self) -> Frame:
        assert self._reader is not None
        try:
            kind, size = HEADER.unpack(await self._reader.readexactly(HEADER.size))
            if size > _MOST_BYTES:
                raise Gone
            return Frame(kind, await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, OSError) as error:
            raise Gone from error

    def close(self) -> None:
        self.theirs.close()
        if self._writer is not None:
            self._writer.close()
        else:
            self._ours.close()
