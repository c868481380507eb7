"""Gathers what an attempt writes into pieces of a sensible size, on disk, for the server.

The wire counts pieces, a million at most. So bytes of one stream that come close together become
one piece, and the longer a log is the longer its pieces are gathered: a program that prints a dot
a million times a second for a month still fits.

A disk that takes no more is told to whoever carries the log (`longer_than`) and to whoever wants it
durable (`sync`); the program that writes the log is not troubled with it.
"""

import asyncio

from potluck.provider.attempt.log_spool import LogSpool
from potluck.wire.provider import PackedLogPiece

PIECE_BYTES = 65_536
# Up to here the streams stay in the order in which they came; then one piece a stream and flush.
EXACT_ORDER_PIECES = 10_000


class AttemptLog:
    """The log of one attempt while it is being written."""

    def __init__(self, spool: LogSpool, flush_seconds: float) -> None:
        self.spool = spool
        self._flush_seconds = flush_seconds
        self._gathered: list[tuple[str, bytearray]] = []
        self._flush_timer: asyncio.TimerHandle | None = None
        self._grown = asyncio.Event()
        self._failure: OSError | None = None

    @property
    def pieces(self) -> int:
        return self.spool.pieces

    async def write(self, stream: str, data: bytes) -> None:
        if not data:
            return
        self._part(stream).extend(data)
        if self._gathered_bytes() >= PIECE_BYTES:
            self.flush()
        elif self._flush_timer is None:
            delay_seconds = self._flush_seconds * (1 + self.pieces // EXACT_ORDER_PIECES)
            self._flush_timer = asyncio.get_running_loop().call_later(delay_seconds, self.flush)

    async def remark(self, sentence: str) -> None:
        """A line of the platform's own, in the stream `potluck`."""
        await self.write("potluck", f"{sentence}\n".encode())

    def flush(self) -> None:
        """Puts all that was gathered on disk and wakes whoever sends it."""
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        gathered, self._gathered = self._gathered, []
        try:
            for stream, data in gathered:
                self._append(stream, data)
        except OSError as error:
            self._failure = error
        self._grown.set()

    def sync(self) -> None:
        """Returns when all that was flushed is on the disk; raises what a flush met."""
        self._check()
        self.spool.sync()

    async def longer_than(self, pieces: int) -> None:
        """Returns when there are more than these; raises what a flush met."""
        while self.pieces <= pieces:
            self._check()
            self._grown.clear()
            await self._grown.wait()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _append(self, stream: str, data: bytearray) -> None:
        for start in range(0, len(data), PIECE_BYTES):
            self.spool.append(PackedLogPiece(stream, bytes(data[start : start + PIECE_BYTES])))

    def _part(self, stream: str) -> bytearray:
        """Where bytes of this stream go: the last part, or any earlier one in a long log."""
        candidates = self._gathered[-1:]
        if self.pieces >= EXACT_ORDER_PIECES:
            candidates = self._gathered
        for name, data in candidates:
            if name == stream:
                return data
        self._gathered.append((stream, bytearray()))
        return self._gathered[-1][1]

    def _gathered_bytes(self) -> int:
        return sum(len(data) for _, data in self._gathered)
