"""Buffers the log of an attempt on disk, in pieces, until the server has all of it.

The wire allows a million pieces. So bytes of one stream that come close together become one piece,
and the interval grows with the log: a program that prints a dot a million times a second for a
month still fits.

A disk error is raised by `longer_than` and `sync`, not in the program that writes the log.
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
    """The pieces of one attempt's log, by number, in a file that is created with the first one.

    Written pieces survive kill -9, and a power failure after `sync`.
    """

    def __init__(self, path: Path, ends: "array[int]") -> None:
        self._path = path
        self._descriptor = -1  # until the first piece
        self._is_closed = False
        self._ends = ends  # where each piece ends in the file

    @classmethod
    def open(cls, directory: Path, attempt_id: AttemptId) -> Self:
        """The spool of an earlier process, without a torn last piece, or an empty one."""
        path = directory / f"{attempt_id}{_SUFFIX}"
        if not path.exists():
            return cls(path, array("Q"))
        spool = cls(path, array("Q", (end for end, _ in frames(path.read_bytes()))))
        os.ftruncate(spool._opened(), spool._start(spool.pieces))
        return spool

    @property
    def pieces(self) -> int:
        return len(self._ends)

    @property
    def size_bytes(self) -> int:
        return self._start(self.pieces)

    def append(self, piece: PackedLogPiece) -> None:
        """Adds a piece; does nothing after `close` or `discard`."""
        if self._is_closed:
            return
        descriptor = self._opened()
        framed, start = frame(msgspec.msgpack.encode(piece)), self._start(self.pieces)
        write_all(descriptor, framed, start)
        self._ends.append(start + len(framed))

    def read(self, offset: int, most_pieces: int, most_bytes: int) -> list[PackedLogPiece]:
        """The pieces from `offset` on, as many as fit, but at least one."""
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


def remove_strays(directory: Path, live_ids: set[AttemptId]) -> None:
    """Removes the logs of attempts that the journal no longer knows."""
    for path in directory.glob(f"*{_SUFFIX}"):
        if path.stem not in live_ids:
            path.unlink()


PIECE_BYTES = 65_536
# Up to here the order of the streams is kept; then each flush makes one piece for each stream.
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

    def add(self, stream: str, data: bytes) -> None:
        if not data:
            return
        self._part(stream).extend(data)
        if self._gathered_bytes() >= PIECE_BYTES:
            self.flush()
        elif self._flush_timer is None:
            delay_seconds = self._flush_seconds * (1 + self.pieces // EXACT_ORDER_PIECES)
            self._flush_timer = asyncio.get_running_loop().call_later(delay_seconds, self.flush)

    async def remark(self, sentence: str) -> None:
        """Writes a line of the platform, in the stream `potluck`."""
        self.add("potluck", f"{sentence}\n".encode())

    def flush(self) -> None:
        """Writes the buffer to disk and wakes the upload."""
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
        """Makes all flushed pieces durable; raises the error of an earlier flush."""
        self._check()
        self.spool.sync()

    async def longer_than(self, pieces: int) -> None:
        """Returns when there are more pieces; raises the error of an earlier flush."""
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
        """The buffer of this stream: the last one, or any earlier one in a long log."""
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
