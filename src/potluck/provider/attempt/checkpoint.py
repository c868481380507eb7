"""Brings what a task keeps in its checkpoint directory to safety, and back for the next attempt.

While it runs: at intervals, if anything has changed. When it ends without having succeeded: once
more, after its last process, so that what it wrote on being asked to end counts. A file that
changes while it is read makes that try worthless, and it is tried again soon; whoever renames whole
files into place is never caught so.
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
from potluck.provider.files.archive import BadArchive, EntryNames
from potluck.provider.files.blob_transfer import Freight
from potluck.provider.files.in_thread import beside
from potluck.provider.files.outbox import NoRoom, OutputRole
from potluck.provider.files.pack import FileChanged, pack
from potluck.provider.files.unpack import make_directory, unpack
from potluck.provider.files.walk import Passed, walk
from potluck.provider.sandbox.driver import CHECKPOINT, WORK, WorkDirectory

NAME = CHECKPOINT.removeprefix(f"{WORK}/")
_AGAIN_SECONDS = 1.0

Marks = tuple[tuple[str, int, int, int], ...]


class Checkpoints:
    """Of one attempt."""

    def __init__(
        self, freight: Freight, log: LogWriter, every_seconds: float, room_bytes: int
    ) -> None:
        self._freight = freight
        self._log = log
        self._every_seconds = every_seconds
        self._room_bytes = room_bytes
        self._kept: Marks = ()
        self._said = ""

    def restore(self, work: WorkDirectory, archive: Path | None) -> None:
        """Makes the directory, with what an earlier attempt left in it."""
        make_directory(work, NAME, self._room_bytes)
        if archive is not None:
            unpack(archive, work, self._room_bytes, NAME)
        with suppress(BadArchive):  # which is said when it is to be kept
            self._kept = _marks(work)

    async def keep(self, work: WorkDirectory) -> None:
        """Until it is cancelled."""
        seconds = self._every_seconds
        while True:
            await asyncio.sleep(seconds)
            try:
                await self._keep_once(work)
                seconds = self._every_seconds
            except FileChanged:
                seconds = min(_AGAIN_SECONDS, self._every_seconds)

    async def keep_last(self, work: WorkDirectory, reason: EndReason) -> None:
        """Nothing runs any more. The outbox brings it to the server before the end is told."""
        if reason is EndReason.COMPLETED:
            return
        marks = await self._look(work)
        if marks is None or marks == self._kept:
            return
        outbox = self._freight.outbox

        def add(there: WorkDirectory) -> None:
            outbox.add(OutputRole.CHECKPOINT, "", _packed(there))
            outbox.sync()

        try:
            await beside(work, add)
        except FileChanged:
            await self._say("the checkpoint is not kept: it changed after the end")
        except NoRoom:
            await self._say("the checkpoint is not kept: this node's own disk is full")
        outbox.announce()

    async def _keep_once(self, work: WorkDirectory) -> None:
        marks = await self._look(work)
        if marks is None or marks == self._kept:
            return
        with self._freight.outbox.scratch() as file:
            blob = await beside(work, lambda own: _write(file, _packed(own)))
            try:
                await self._freight.courier.send(blob, _reader(file))
                await self._freight.courier.keep_checkpoint(blob)
            except StaleLease:
                return  # whoever takes leases back says so
            except PotluckError as error:
                await self._say(f"the checkpoint was not taken: {error.detail}")
        self._kept = marks

    async def _look(self, work: WorkDirectory) -> Marks | None:
        """What is there; nothing, if the next attempt could not unpack it."""
        try:
            marks = await beside(work, _marks)
        except BadArchive as error:
            await self._say(f"the checkpoint is not kept: {error}")
            return None
        # Files that are mostly nothing can be larger than the task's whole disk.
        if sum(size for _, _, size, _ in marks) > self._room_bytes:
            await self._say("the checkpoint is not kept: it is larger than the task's disk")
            return None
        return marks

    async def _say(self, sentence: str) -> None:
        """Once, and not at every try."""
        if sentence != self._said:
            self._said = sentence
            await self._log.remark(sentence)


def _marks(work: WorkDirectory) -> Marks:
    """Raises BadArchive."""
    names, marks = EntryNames(), []
    for found in walk(work.descriptor, NAME, Passed()):
        names.take(found.path, found.is_directory)
        if not found.is_directory:
            marks.append(found.mark)
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
