"""What this node holds, on disk: leases, and outcomes that the server has not acknowledged.

An append-only file of small records. `write` returns when they survive kill -9, and outcomes also
a lost power line: one fsync for all of them together. The file is written anew (beside, then
renamed) at each start and whenever most of it is about attempts that are over. A task's source,
arguments and environment variables are never in it.
"""

import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self
from zlib import crc32

import msgspec
from msgspec import Struct

from potluck.local.durable_files import sync, write_all
from potluck.model.ids import AttemptId, TaskId
from potluck.model.lease import Lease
from potluck.wire.provider import Finished, ItemsDone

_HEAD = struct.Struct("<II")
HEAD_BYTES = _HEAD.size


def frame(payload: bytes) -> bytes:
    return _HEAD.pack(len(payload), crc32(payload)) + payload


def frames(content: bytes, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """The end position and the payload of each whole record."""
    position = start
    while position + HEAD_BYTES <= len(content):
        length, checksum = _HEAD.unpack_from(content, position)
        position += HEAD_BYTES
        payload = content[position : position + length]
        if len(payload) < length or crc32(payload) != checksum:
            return
        position += length
        yield position, payload


_FILE = "journal"
# Below this many records a rewrite is not worth its fsyncs.
_REWRITE_FROM_RECORDS = 1_000


class Leased(Struct, frozen=True, tag_field="record", tag="leased"):
    """This attempt is ours from now on."""

    lease: Lease
    task_id: TaskId


class Concluded(Struct, frozen=True, tag_field="record", tag="concluded"):
    """It is over here, with this outcome."""

    finished: Finished


class ItemsCounted(Struct, frozen=True, tag_field="record", tag="counted"):
    """Items of it have these outcomes."""

    report: ItemsDone


class OutcomesDelivered(Struct, frozen=True, tag_field="record", tag="delivered"):
    """The server has the outcomes that begin with this item."""

    attempt_id: AttemptId
    item: int


class Forgotten(Struct, frozen=True, tag_field="record", tag="forgotten"):
    """The server has it, or wants no more of it."""

    attempt_id: AttemptId


Record = Leased | Concluded | ItemsCounted | OutcomesDelivered | Forgotten
# To lose one of these with the power is harmless: a lease that nobody remembers is one that the
# server takes back by itself, and of the others it is told once more.
_NEED_NO_SYNC = (Leased, OutcomesDelivered, Forgotten)


class JournalEntry(Struct):
    """All that the journal knows about one attempt."""

    leased: Leased
    finished: Finished | None = None
    outcomes: dict[int, ItemsDone] = {}  # by the first item of each


class Journal:
    """The open journal of one data directory. One process at a time; the caller holds the lock."""

    def __init__(self, directory: Path, kept: dict[AttemptId, JournalEntry]) -> None:
        self._directory = directory
        self._kept = kept
        self._rewrite()

    @classmethod
    def open(cls, directory: Path) -> Self:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return cls(directory, _read(directory / _FILE))

    @property
    def kept(self) -> list[JournalEntry]:
        """The attempts that are not forgotten, oldest first."""
        return list(self._kept.values())

    def takes_long(self, records: Sequence[Record]) -> bool:
        """Whether to write these is to wait for the disk."""
        is_durable = any(not isinstance(record, _NEED_NO_SYNC) for record in records)
        return is_durable or self._is_due_to_be_rewritten(len(records))

    def write(self, records: Sequence[Record]) -> None:
        """Makes them durable together."""
        batch = list(records)
        if not batch:
            return
        is_due = self._is_due_to_be_rewritten(len(batch))
        for record in batch:
            _apply(self._kept, record)
        self._records += len(batch)
        if is_due:
            self._rewrite()
            return
        write_all(self._descriptor, b"".join(_framed(record) for record in batch))
        if any(not isinstance(record, _NEED_NO_SYNC) for record in batch):
            os.fsync(self._descriptor)

    def _is_due_to_be_rewritten(self, more: int) -> bool:
        return self._records + more > max(_REWRITE_FROM_RECORDS, 8 * self._live)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def _rewrite(self) -> None:
        """Writes only what is still held, beside the old file, and puts it in its place."""
        self.close()
        fresh = self._directory / f"{_FILE}.new"
        live = [record for kept in self._kept.values() for record in _records(kept)]
        self._descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        write_all(self._descriptor, b"".join(_framed(record) for record in live))
        os.fsync(self._descriptor)
        fresh.replace(self._directory / _FILE)
        sync(self._directory)
        self._records = self._live = len(live)

    _descriptor = -1
    _records = 0  # in the file
    _live = 0  # of them, at the last rewrite, those still worth having


def _read(path: Path) -> dict[AttemptId, JournalEntry]:
    kept: dict[AttemptId, JournalEntry] = {}
    content = path.read_bytes() if path.exists() else b""
    for _, payload in frames(content):
        _apply(kept, msgspec.msgpack.decode(payload, type=Record))
    return kept


def _apply(kept: dict[AttemptId, JournalEntry], record: Record) -> None:
    match record:
        case Leased(lease):
            kept[lease.attempt_id] = JournalEntry(record)
        case Concluded(finished) if finished.lease.attempt_id in kept:
            kept[finished.lease.attempt_id].finished = finished
        case ItemsCounted(report) if report.lease.attempt_id in kept:
            kept[report.lease.attempt_id].outcomes[report.first_item] = report
        case OutcomesDelivered(attempt_id, item) if attempt_id in kept:
            kept[attempt_id].outcomes.pop(item, None)
        case Forgotten(attempt_id):
            kept.pop(attempt_id, None)


def _records(kept: JournalEntry) -> list[Record]:
    concluded = [] if kept.finished is None else [Concluded(kept.finished)]
    return [kept.leased, *map(ItemsCounted, kept.outcomes.values()), *concluded]


def _framed(record: Record) -> bytes:
    return frame(msgspec.msgpack.encode(record))
