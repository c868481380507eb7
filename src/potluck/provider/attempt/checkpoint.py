"""Saves a task's checkpoint directory on the server, and restores it for the next attempt.

While the task runs: at intervals, if a file has changed. When it ends without success: once more,
after its last process, so that files written during the grace count. If a file changes while it is
read, saving is retried soon; tasks that rename complete files into place avoid that.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import IO

from potluck.model.blob import BlobRef
from potluck.model.error import PotluckError, StaleLease
from potluck.model.task import EndReason
from potluck.provider.attempt.mask import LogWriter
from potluck.provider.files.archive import BadArchive, EntryNames, FileChanged, pack
from potluck.provider.files.blob_transfer import AttemptTransfers
from potluck.provider.files.in_thread import run_in_thread
from potluck.provider.files.outbox import DiskFull, OutputRole
from potluck.provider.files.unpack import make_directory, unpack
from potluck.provider.files.walk import SkippedPaths, walk
from potluck.provider.sandbox.driver import CHECKPOINT, WORK, WorkDirectory

NAME = CHECKPOINT.removeprefix(f"{WORK}/")
_AGAIN_SECONDS = 1.0

Marks = tuple[tuple[str, int, int, int], ...]


class Checkpoints:
    def __init__(
        self, freight: AttemptTransfers, log: LogWriter, every_seconds: float, room_bytes: int
    ) -> None:
        self._freight = freight
        self._log = log
        self._every_seconds = every_seconds
        self._room_bytes = room_bytes
        self._kept: Marks = ()
        self._remark = ""

    def restore(self, work: WorkDirectory, archive: Path | None) -> None:
        """Creates the directory, with the content of an earlier attempt."""
        make_directory(work, NAME, self._room_bytes)
        if archive is not None:
            unpack(archive, work, self._room_bytes, NAME)
        with suppress(BadArchive):  # reported when it is saved
            self._kept = _marks(work)

    async def keep(self, work: WorkDirectory) -> None:
        """Saves at intervals, until it is cancelled."""
        seconds = self._every_seconds
        while True:
            await asyncio.sleep(seconds)
            try:
                await self._keep_once(work)
                seconds = self._every_seconds
            except FileChanged:
                seconds = min(_AGAIN_SECONDS, self._every_seconds)

    async def keep_last(self, work: WorkDirectory, reason: EndReason) -> None:
        """After the last process: the outbox uploads it before the end is reported."""
        if reason is EndReason.COMPLETED:
            return
        marks = await self._look(work)
        if marks is None or marks == self._kept:
            return
        outbox = self._freight.outbox

        def add(directory: WorkDirectory) -> None:
            outbox.add(OutputRole.CHECKPOINT, "", _packed(directory))
            outbox.sync()

        try:
            await run_in_thread(work, add)
        except FileChanged:
            await self._say("the checkpoint is not saved: it changed after the end")
        except DiskFull:
            await self._say("the checkpoint is not saved: this node's disk is full")
        outbox.announce()

    async def _keep_once(self, work: WorkDirectory) -> None:
        marks = await self._look(work)
        if marks is None or marks == self._kept:
            return
        with self._freight.outbox.scratch() as file:
            blob = await run_in_thread(work, lambda own: _write(file, _packed(own)))
            try:
                await self._freight.courier.send(blob, _reader(file))
                await self._freight.courier.keep_checkpoint(blob)
            except StaleLease:
                return  # reported by the lease duties
            except PotluckError as error:
                await self._say(f"the server rejected the checkpoint: {error.detail}")
        self._kept = marks

    async def _look(self, work: WorkDirectory) -> Marks | None:
        """The marks of its files; None if the next attempt could not unpack them."""
        try:
            marks = await run_in_thread(work, _marks)
        except BadArchive as error:
            await self._say(f"the checkpoint is not saved: {error}")
            return None
        # Sparse files can be larger than the task's whole disk.
        if sum(size for _, _, size, _ in marks) > self._room_bytes:
            await self._say("the checkpoint is not saved: it is larger than the task's disk")
            return None
        return marks

    async def _say(self, sentence: str) -> None:
        """Writes the sentence to the log once, not at every try."""
        if sentence != self._remark:
            self._remark = sentence
            await self._log.remark(sentence)


def _marks(work: WorkDirectory) -> Marks:
    """Raises BadArchive."""
    names, marks = EntryNames(), []
    for entry in walk(work.descriptor, NAME, SkippedPaths()):
        names.take(entry.path, entry.is_directory)
        if not entry.is_directory:
            marks.append(entry.mark)
    return tuple(marks)


def _packed(work: WorkDirectory) -> Iterator[bytes]:
    return pack(work.descriptor, NAME)


def _write(file: IO[bytes], chunks: Iterator[bytes]) -> BlobRef:
    digest, size = sha256(), 0
    for chunk in chunks:
        file.write(chunk)
        digest.update(chunk)
        size += len(chunk)
    file.flush()
    return BlobRef(digest.hexdigest(), size)


def _reader(file: IO[bytes]) -> Callable[[int, int], bytes]:
    def read(start: int, size: int) -> bytes:
        file.seek(start)
        return file.read(size)

    return read
