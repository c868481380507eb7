"""Results of an attempt on the provider's disk, until the server has all of them.

One file contains all bytes in sequence, with an index, so that ten thousand small files cost one
fsync. Entries survive kill -9 and power loss after `sync`; before that they do not exist. A thread
that adds entries also syncs, before an outcome refers to them. Nothing is created on disk for an
attempt without results. The results of an array can exceed the disk, so space is freed once the
server has them.
"""

import asyncio
import errno
import hashlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO, Self

import msgspec
from msgspec import Struct

from potluck.local.durable_files import sync, write_all, write_atomically
from potluck.model.blob import INLINE_BYTES, BlobRef, Value
from potluck.model.ids import AttemptId
from potluck.provider.attempt.journal import frame, frames

_DIRECTORY = "outbox"
_CONTENT, _INDEX, _SHIPPED = "content", "index", "shipped"
# Disk space reserved for the journal and the logs.
_SPARE_BYTES = 2**28
# Less is not worth freeing.
_GIVEN_BACK_BYTES = 2**26


class DiskFull(OSError):
    """This machine's disk has no space left for task results."""


class OutputRole(StrEnum):
    """How the server uses an entry."""

    OUTPUT = "output"  # a file by its path
    VALUE = "value"  # what a function returned; a report names it
    CHECKPOINT = "checkpoint"  # for the next attempt


class OutboxEntry(Struct, frozen=True, array_like=True):
    """A result to upload, and the position of its bytes."""

    role: OutputRole
    path: str
    offset: int
    blob: BlobRef


class Outbox:
    """The outbox of one attempt; thread-safe."""

    def __init__(self, directory: Path, parcels: list[OutboxEntry], shipped: int = 0) -> None:
        self._directory = directory
        self.parcels = parcels
        self.shipped = shipped  # the number of entries that the server had before a restart
        self._unsynced: list[OutboxEntry] = []
        self._content = -1
        # Threads may add or read while it is closed, after which the descriptor may be reused.
        self._lock = threading.Lock()
        self._adding, self._syncing = threading.Lock(), threading.Lock()
        self._is_closed = False
        self._end = sum(parcel.blob.size_bytes for parcel in parcels)
        self._given_back = sum(parcel.blob.size_bytes for parcel in parcels[:shipped])
        self._grown = asyncio.Event()

    @classmethod
    def open(cls, directory: Path, attempt_id: AttemptId) -> Self:
        """Opens the outbox of an earlier process, or an empty one."""
        own = directory / _DIRECTORY / attempt_id
        index, shipped = own / _INDEX, own / _SHIPPED
        content = index.read_bytes() if index.exists() else b""
        parcels = [msgspec.msgpack.decode(entry, type=OutboxEntry) for _, entry in frames(content)]
        return cls(own, parcels, int(shipped.read_bytes()) if shipped.exists() else 0)

    def __len__(self) -> int:
        return len(self.parcels)

    @property
    def size_bytes(self) -> int:
        """Size of the task's output files."""
        return sum(
            parcel.blob.size_bytes for parcel in self.parcels if parcel.role is OutputRole.OUTPUT
        )

    @property
    def kept_bytes(self) -> int:
        """What it takes of the disk."""
        return self._end - self._given_back

    def add(self, role: OutputRole, path: str, chunks: Iterable[bytes]) -> OutboxEntry:
        """Adds an entry; afterwards call `announce` in the event loop. Raises NoRoom."""
        digest, size = hashlib.sha256(), 0
        with self._adding:
            for chunk in chunks:
                with self._opened() as content:
                    self._check_room(content, len(chunk))
                    write_all(content, chunk, self._end + size)
                digest.update(chunk)
                size += len(chunk)
            parcel = OutboxEntry(role, path, self._end, BlobRef(digest.hexdigest(), size))
            self._end += size
            with self._lock:
                self._unsynced.append(parcel)
            self.parcels.append(parcel)
        return parcel

    def announce(self) -> None:
        """Wakes the uploader."""
        self._grown.set()

    def keep_value(self, data: bytes) -> Value:
        """Returns small values inline; adds large ones, to be uploaded before a report."""
        if len(data) <= INLINE_BYTES:
            return Value(data)
        parcel = self.add(OutputRole.VALUE, "", [data])
        self.sync()
        return Value(blob=parcel.blob)

    def is_to_give_back(self, shipped: int) -> bool:
        """Whether freeing space is worthwhile and allowed; values may have to be read again."""
        is_all = shipped == len(self.parcels)
        is_much = self._end - self._given_back >= _GIVEN_BACK_BYTES
        return (
            is_all and is_much and all(parcel.role is OutputRole.OUTPUT for parcel in self.parcels)
        )

    def give_back(self, shipped: int) -> None:
        """Frees the space of uploaded entries; offsets of later entries stay valid."""
        with self._adding:
            if not self.is_to_give_back(shipped):
                return
            self.sync()
            write_atomically(self._directory / _SHIPPED, b"%d" % shipped)
            with self._opened() as content:
                os.ftruncate(content, 0)
            self._given_back = self._end

    def read(self, parcel: OutboxEntry, start: int, size: int) -> bytes:
        left = parcel.blob.size_bytes - start
        with self._opened() as content:
            return os.pread(content, min(size, left), parcel.offset + start)

    def scratch(self) -> IO[bytes]:
        """An anonymous temporary file."""
        self._directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=self._directory.parent)

    def sync(self) -> None:
        """Syncs the bytes before the index, so that index entries are always complete."""
        with self._syncing:
            with self._lock:
                fresh, self._unsynced = self._unsynced, []
            if fresh:
                self._sync(fresh)

    def _sync(self, fresh: list[OutboxEntry]) -> None:
        with self._opened() as content:
            own = os.dup(content)  # so that fsync runs without the lock
        try:
            os.fsync(own)
        finally:
            os.close(own)
        with (self._directory / _INDEX).open("ab") as index:
            index.write(b"".join(frame(msgspec.msgpack.encode(parcel)) for parcel in fresh))
            index.flush()
            os.fsync(index.fileno())
        sync(self._directory)
        sync(self._directory.parent)

    async def more_than(self, parcels: int) -> None:
        while len(self.parcels) <= parcels:
            self._grown.clear()
            await self._grown.wait()

    def close(self) -> None:
        """Later reads and additions raise OSError."""
        with self._lock:
            self._is_closed = True
            if self._content >= 0:
                os.close(self._content)
            self._content = -1

    def discard(self) -> None:
        self.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _check_room(self, content: int, size_bytes: int) -> None:
        """Raises NoRoom, and removes the entry's bytes written so far."""
        if shutil.disk_usage(self._directory).free - size_bytes < _SPARE_BYTES:
            os.ftruncate(content, self._end)
            raise DiskFull(errno.ENOSPC, "The disk of this node is full")

    @contextmanager
    def _opened(self) -> Iterator[int]:
        with self._lock:
            if self._is_closed:
                raise OSError(errno.EBADF, "The outbox is closed")
            if self._content < 0:
                self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                self._content = os.open(self._directory / _CONTENT, flags, 0o600)
            yield self._content


def remove_stray_outboxes(directory: Path, live_ids: set[AttemptId]) -> None:
    """Removes outboxes of attempts that are not in `held`."""
    for path in (directory / _DIRECTORY).glob("*"):
        if path.name not in live_ids:
            shutil.rmtree(path, ignore_errors=True)
