"""The log of one attempt on the provider's disk, until the server has all of it.

Pieces are appended as they are made and read back for sending, so that a long silence of the server
costs disk (bounded by the task's log limit) and no memory. Written pieces survive kill -9 at once,
and a lost power line after `sync`. Nothing is made on disk for an attempt that writes nothing.
"""

import os
from array import array
from pathlib import Path
from typing import Self

import msgspec

from potluck.local.write_all import write_all
from potluck.model.ids import AttemptId
from potluck.provider.attempt.framing import frame, frames
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
