"""Gathers what an attempt writes into pieces of a sensible size, on disk, for the server.

The wire counts pieces, a million at most. So bytes of one stream that come close together become
one piece, and the longer a log is the longer its pieces are gathered: a program that prints a dot
a million times a second for a month still fits.

A disk that takes no more is told to whoever carries the log (`longer_than`) and to whoever wants it
durable (`sync`); the program that writes the log is not troubled with it.
"""

import asyncio
import os
from array import array
from pathlib import Path
from typing import Self

import msgspec

from potluck.local.durable_files import write_all
from potluck.model.ids import AttemptId
from potluck.provider.attempt.journal import frame, frames
from potluck.wire.provider import PackedLogPiece

_SUFFIX = ".log"


class LogSpool:
    """The pieces of one attempt's log, by number."""

    def __init__(self, path: Path, ends: "array[int]") -> None:
        self._path = path
        self._descriptor = -1  # until there is something
        self._is_closed = False
        self._ends = ends  # where each piece ends in the file

    @classmethod
    def open(cls, directory: Path, attempt_id: AttemptId) -> Self:
        """The spool as an earlier life left it, without a torn last piece, or an empty one."""
        path = directory / f"{attempt_id}{_SUFFIX}"
        if not path.exists():
            return cls(path, array("Q"))
        spool = cls(path, array("Q", (end for end, _ in frames(path.read_bytes()))))
        os.ftruncate(spool._opened(), spool._start(spool.pieces))
        return spool

    @property
    def pieces(self) -> int:
        return len(self._ends)

    def append(self, piece: PackedLogPiece) -> None:
        """Adds a piece; after `discard` nobody wants it any more, and it is dropped."""
        if self._is_closed:
            return
        descriptor = self._opened()
        framed, start = frame(msgspec.msgpack.encode(piece)), self._start(self.pieces)
        write_all(descriptor, framed, start)
        self._ends.append(start + len(framed))

    def read(self, offset: int, most_pieces: int, most_bytes: int) -> list[PackedLogPiece]:
        """The pieces from `offset` on, as many as fit; at least one if there is one."""
        if offset >= self.pieces:
            return []
        start = self._start(offset)
        last = min(offset + most_pieces, self.pieces)
        while last > offset + 1 and self._ends[last - 1] - start > most_bytes:
            last -= 1
        content = os.pread(self._descriptor, self._start(last) - start, start)
        return [
            msgspec.msgpack.decode(payload, type=PackedLogPiece) for _, payload in frames(content)
        ]

    def sync(self) -> None:
        if self._descriptor >= 0 and self._ends:
            os.fsync(self._descriptor)

    def close(self) -> None:
        self._is_closed = True
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def discard(self) -> None:
        self.close()
        self._path.unlink(missing_ok=True)

    def _opened(self) -> int:
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        return self._descriptor

    def _start(self, piece: int) -> int:
        return self._ends[piece - 1] if piece else 0


def remove_strays(directory: Path, held: set[AttemptId]) -> None:
    """Removes the logs of attempts that the journal no longer knows."""
    for path in directory.glob(f"*{_SUFFIX}"):
        if path.stem not in held:
            path.unlink()


PIECE_BYTES = 65_536
# Up to here the streams stay in the order in which they came; then one piece a stream and flush.
EXACT_ORDER_PIECES = 10_000


class LogBuffer:
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
