"""The journal on disk: leases, and outcomes that the server has not acknowledged.

An append-only file of small records. After `write` they survive kill -9, and outcomes also a power
failure: one fsync for the whole batch. The file is rewritten (as a new file, then renamed) at each
start and whenever most of its records are obsolete. A record is framed by its length and a CRC; a
torn or damaged end is ignored. A task's source, arguments and variables are never in it.
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
from potluck.model.task import ItemRange
from potluck.provider.holding import WorkFacts
from potluck.wire.provider import Finished, ItemsDone

_HEAD = struct.Struct("<II")
HEAD_BYTES = _HEAD.size


def frame(payload: bytes) -> bytes:
    return _HEAD.pack(len(payload), crc32(payload)) + payload


def frames(content: bytes, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """The end position and the payload of each complete record."""
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


class WorkTimes(Struct, frozen=True):
    """When the consumer's code ran, in milliseconds since 1970; 0 if it did not."""

    started_at_ms: int = 0
    ended_at_ms: int = 0


class Leased(Struct, frozen=True, tag_field="record", tag="leased"):
    """This node holds the attempt."""

    lease: Lease
    task_id: TaskId
    facts: WorkFacts | None = None  # for its receipt


class Concluded(Struct, frozen=True, tag_field="record", tag="concluded"):
    """The attempt has ended with this outcome."""

    finished: Finished
    times: WorkTimes | None = None  # for its receipt


class ItemsTaken(Struct, frozen=True, tag_field="record", tag="taken"):
    """Items of a call stream that are about to run in the attempt."""

    attempt_id: AttemptId
    start: int
    end: int


class ItemsCounted(Struct, frozen=True, tag_field="record", tag="counted"):
    """Items of the attempt have these outcomes. Those of a call stream need not be synced: what a
    power failure takes was not acknowledged, and runs again."""

    report: ItemsDone
    is_synced: bool = True


class OutcomesDelivered(Struct, frozen=True, tag_field="record", tag="delivered"):
    """The server has the outcomes that start with this item."""

    attempt_id: AttemptId
    item: int


class Forgotten(Struct, frozen=True, tag_field="record", tag="forgotten"):
    """The server has the outcome, or has cancelled the attempt."""

    attempt_id: AttemptId


Record = Leased | Concluded | ItemsTaken | ItemsCounted | OutcomesDelivered | Forgotten
# Losing one of these at a power failure is harmless: a forgotten lease expires on the server, and
# the others are only reported again.
_NEED_NO_SYNC = (Leased, ItemsTaken, OutcomesDelivered, Forgotten)


def _needs_sync(record: Record) -> bool:
    if isinstance(record, ItemsCounted):
        return record.is_synced
    return not isinstance(record, _NEED_NO_SYNC)


class JournalEntry(Struct):
    leased: Leased
    finished: Finished | None = None
    times: WorkTimes | None = None
    outcomes: dict[int, ItemsDone] = {}  # by the first item of each
    taken: ItemsTaken | None = None  # of a call stream: from its first item to the last that came
    next_item: int = 0  # of a call stream: all before this one have an outcome

    @property
    def unfinished(self) -> ItemRange | None:
        """Of a call stream: items that came and have no outcome. They run in their order."""
        if self.taken is None or self.next_item >= self.taken.end:
            return None
        return ItemRange(max(self.taken.start, self.next_item), self.taken.end)


class Journal:
    """The open journal of one data directory. One process at a time; the caller holds the lock."""

    def __init__(self, directory: Path, entries: dict[AttemptId, JournalEntry]) -> None:
        self._directory = directory
        self._kept = entries
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
        """Whether writing these waits for the disk."""
        is_durable = any(map(_needs_sync, records))
        return is_durable or self._is_rewrite_due(len(records))

    def write(self, records: Sequence[Record]) -> None:
        """Makes them durable together."""
        if not records:
            return
        is_due = self._is_rewrite_due(len(records))
        for record in records:
            _apply(self._kept, record)
        self._records += len(records)
        if is_due:
            self._rewrite()
            return
        write_all(self._descriptor, b"".join(map(_framed, records)))
        if any(map(_needs_sync, records)):
            os.fsync(self._descriptor)

    def _is_rewrite_due(self, more: int) -> bool:
        return self._records + more > max(_REWRITE_FROM_RECORDS, 8 * self._live)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def _rewrite(self) -> None:
        """Replaces the file by one with only the records of held attempts."""
        self.close()
        fresh = self._directory / f"{_FILE}.new"
        live = [record for entry in self._kept.values() for record in _records(entry)]
        self._descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        write_all(self._descriptor, b"".join(map(_framed, live)))
        os.fsync(self._descriptor)
        fresh.replace(self._directory / _FILE)
        sync(self._directory)
        self._records = self._live = len(live)

    _descriptor = -1
    _records = 0  # in the file
    _live = 0  # records after the last rewrite


def _read(path: Path) -> dict[AttemptId, JournalEntry]:
    entries: dict[AttemptId, JournalEntry] = {}
    content = path.read_bytes() if path.exists() else b""
    for _, payload in frames(content):
        _apply(entries, msgspec.msgpack.decode(payload, type=Record))
    return entries


def _apply(entries: dict[AttemptId, JournalEntry], record: Record) -> None:
    match record:
        case Leased(lease):
            entries[lease.attempt_id] = JournalEntry(record)
        case Concluded(finished, times) if finished.lease.attempt_id in entries:
            entry = entries[finished.lease.attempt_id]
            entry.finished, entry.times = finished, times
        case ItemsTaken(attempt_id, start, end) if attempt_id in entries:
            entry = entries[attempt_id]
            first = start if entry.taken is None else entry.taken.start
            entry.taken = ItemsTaken(attempt_id, first, end)
        case ItemsCounted(report) if report.lease.attempt_id in entries:
            entry = entries[report.lease.attempt_id]
            entry.outcomes[report.first_item] = report
            if entry.taken is not None:
                entry.next_item = max(entry.next_item, report.last_item + 1)
        case OutcomesDelivered(attempt_id, item) if attempt_id in entries:
            entries[attempt_id].outcomes.pop(item, None)
        case Forgotten(attempt_id):
            entries.pop(attempt_id, None)


def _records(entry: JournalEntry) -> list[Record]:
    concluded = [] if entry.finished is None else [Concluded(entry.finished, entry.times)]
    left, attempt_id = entry.unfinished, entry.leased.lease.attempt_id
    taken = [] if left is None else [ItemsTaken(attempt_id, left.start, left.end)]
    return [entry.leased, *taken, *map(ItemsCounted, entry.outcomes.values()), *concluded]


def _framed(record: Record) -> bytes:
    return frame(msgspec.msgpack.encode(record))
