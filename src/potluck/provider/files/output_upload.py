"""Copies a run's output files into the outbox of the attempt, and uploads that to the server.

Small files are sent inline, many in one message; large ones are uploaded before a message names
them, and resume where they were interrupted, also after a restart. A refused file is left out, with
a line in the log; the outcome counts all the same.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from potluck.model.blob import INLINE_BYTES, MOST_OUTPUT_FILES
from potluck.model.error import PotluckError, StaleLease
from potluck.model.ids import AttemptId
from potluck.provider.attempt.log_buffer import LogBuffer
from potluck.provider.event import Event, LeaseLost, ParcelsShipped, ValueRefused
from potluck.provider.files.blob_transfer import AttemptTransfers
from potluck.provider.files.new_files import NewFiles
from potluck.provider.files.outbox import DiskFull, Outbox, OutboxEntry, OutputRole
from potluck.provider.files.walk import SkippedPaths, WalkedEntry, walk
from potluck.provider.sandbox.driver import WorkDirectory
from potluck.wire.consumer import OUTPUT_REMARK
from potluck.wire.files import AddedFile

OUTPUT_NAME = "output"
_CHUNK_BYTES = 2**20
_MOST_FILES, _MOST_BYTES = 1_000, 2 * 2**20  # in one message


def collect_outputs(
    work: WorkDirectory,
    outbox: Outbox,
    most_bytes: int,
    prefix: str = "",
    directory: str = OUTPUT_NAME,
) -> list[str]:
    """Copies the output directory; returns sentences for the task's owner about omitted files."""
    skipped = SkippedPaths()
    return _copy(walk(work.descriptor, directory, skipped), outbox, most_bytes, prefix, skipped)


def collect_new_files(
    work: WorkDirectory, outbox: Outbox, most_bytes: int, prefix: str, new: NewFiles
) -> list[str]:
    """Copies the new files that the task wants to keep, under their paths."""
    skipped, doubled = SkippedPaths(), SkippedPaths()
    taken = {parcel.path for parcel in outbox.parcels if parcel.role is OutputRole.OUTPUT}

    def untaken() -> Iterator[WalkedEntry]:
        for entry in new.kept(work):
            if f"{prefix}{entry.path}" in taken:
                doubled.add(entry.path)
            else:
                yield entry

    remarks = _copy(untaken(), outbox, most_bytes, prefix, skipped)
    if doubled.count:
        why = "left out, as files in $POTLUCK_OUTPUT have the same names"
        remarks.append(f"{OUTPUT_REMARK}{why}: {doubled.listed()}")
    return remarks


def _copy(
    entries: Iterable[WalkedEntry],
    outbox: Outbox,
    most_bytes: int,
    prefix: str,
    skipped: SkippedPaths,
) -> list[str]:
    """Returns sentences about omitted files.

    A sparse file can be larger than the task's disk; it is omitted, since it would fill this
    machine's disk instead.
    """
    too_large, no_room = SkippedPaths(), SkippedPaths()
    most_files = MOST_OUTPUT_FILES - len(outbox)
    taken = left = 0
    for entry in entries:
        if entry.is_directory:
            continue
        left += 1
        if left > most_files:
            break
        if taken + entry.status.st_size > most_bytes:
            too_large.add(entry.path)
            continue
        try:
            descriptor = entry.open()
        except OSError:
            skipped.add(entry.path)
            continue
        taken += entry.status.st_size
        content = _content(descriptor, entry.status.st_size)
        try:
            outbox.add(OutputRole.OUTPUT, f"{prefix}{entry.path}", content)
        except DiskFull:
            no_room.add(entry.path)
    remarks = [
        f"left out, as {why}: {some.listed()}"
        for why, some in (
            ("they are not regular files or have unusable names", skipped),
            ("they are larger than the disk", too_large),
            ("this node's own disk is full", no_room),
        )
        if some.count
    ]
    if left > most_files:
        remarks.append(f"only the first {MOST_OUTPUT_FILES} files are kept")
    return [f"{OUTPUT_REMARK}{remark}" for remark in remarks]


def _content(descriptor: int, left: int) -> Iterator[bytes]:
    """Reads at most `left` bytes, in case the file still grows."""
    try:
        while left and (data := os.read(descriptor, min(left, _CHUNK_BYTES))):
            left -= len(data)
            yield data
    finally:
        os.close(descriptor)


async def upload_outputs(
    freight: AttemptTransfers,
    attempt_id: AttemptId,
    log: LogBuffer,
    tell: Callable[[list[Event]], bool],
) -> None:
    """Runs until it is cancelled with its attempt, or the lease is lost."""
    delivery = _Delivery(freight, attempt_id, log, tell)
    outbox, done = freight.outbox, freight.outbox.shipped
    if done:
        tell([ParcelsShipped(attempt_id, done, log.pieces)])
    while True:
        await outbox.more_than(done)
        batch = _next_batch(outbox.parcels[done:])
        try:
            await delivery.send(batch)
        except StaleLease:
            tell([LeaseLost(attempt_id)])
            return
        done += len(batch)
        log.flush()
        tell([ParcelsShipped(attempt_id, done, log.pieces)])
        if outbox.is_to_give_back(done):
            await asyncio.to_thread(outbox.give_back, done)


def _next_batch(waiting: list[OutboxEntry]) -> list[OutboxEntry]:
    """The first entries, as many as fit into one message, at least one."""
    batch, size = waiting[:1], waiting[0].blob.size_bytes
    for parcel in waiting[1:_MOST_FILES]:
        size += parcel.blob.size_bytes
        if size > _MOST_BYTES:
            break
        batch.append(parcel)
    return batch


class _Delivery:
    def __init__(
        self,
        freight: AttemptTransfers,
        attempt_id: AttemptId,
        log: LogBuffer,
        tell: Callable[[list[Event]], bool],
    ) -> None:
        self._outbox, self._courier = freight.outbox, freight.courier
        self._attempt_id = attempt_id
        self._log = log
        self._tell = tell

    async def send(self, parcels: list[OutboxEntry]) -> None:
        """Returns when the server has accepted or refused each entry."""
        files = [await self._prepared(parcel) for parcel in parcels]
        await self._add([file for file in files if file is not None])

    async def _prepared(self, parcel: OutboxEntry) -> AddedFile | None:
        """Uploads large entries; returns the file to announce, if it is one."""
        if parcel.role is OutputRole.OUTPUT and parcel.blob.size_bytes <= INLINE_BYTES:
            data = await asyncio.to_thread(self._outbox.read, parcel, 0, INLINE_BYTES)
            return AddedFile(parcel.path, data)
        try:
            await self._courier.send(parcel.blob, partial(self._outbox.read, parcel))
            if parcel.role is OutputRole.CHECKPOINT:
                await self._courier.keep_checkpoint(parcel.blob)
        except StaleLease:
            raise
        except PotluckError as error:
            await self._refused(parcel.role, parcel.path, error)
            return None
        return (
            AddedFile(parcel.path, blob=parcel.blob) if parcel.role is OutputRole.OUTPUT else None
        )

    async def _add(self, files: list[AddedFile]) -> None:
        if not files:
            return
        try:
            await self._courier.add_files(tuple(files))
        except StaleLease:
            raise
        except PotluckError as error:
            if len(files) == 1:
                await self._refused(OutputRole.OUTPUT, files[0].path, error)
                return
            for file in files:  # the others may be accepted
                await self._add([file])

    async def _refused(self, role: OutputRole, path: str, error: PotluckError) -> None:
        if role is OutputRole.VALUE:
            self._tell([ValueRefused(self._attempt_id, error.detail)])
        what = {OutputRole.OUTPUT: f"output {path}", OutputRole.CHECKPOINT: "the checkpoint"}
        await self._log.remark(f"{what.get(role, 'the value')} was not accepted: {error.detail}")
