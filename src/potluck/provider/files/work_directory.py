"""Carries files into the directory that a task works in, and what it leaves out of it."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from msgspec import Struct

from potluck.model.blob import BlobRef
from potluck.model.task import EndReason
from potluck.provider.attempt.checkpoint import NAME as CHECKPOINT_NAME
from potluck.provider.attempt.checkpoint import Checkpoints
from potluck.provider.attempt.types import PreparedAttempt
from potluck.provider.files.collect_outputs import OUTPUT_NAME, collect
from potluck.provider.files.in_thread import beside
from potluck.provider.files.unpack import make_directory, put, unpack
from potluck.provider.files.walk import is_empty
from potluck.provider.sandbox.driver import WorkDirectory


class InputFiles(Struct, frozen=True):
    """Whole files, each checked; they stay as they are until the attempt lets go of them."""

    paths: dict[str, Path] = {}  # by sha256
    fetched_bytes: int = 0  # of them, what was not here already

    def path_of(self, blob: BlobRef) -> Path:
        return self.paths[blob.sha256]


class Porter:
    """The errand of one run. Of an array each item has its own files, and there are no
    checkpoints: an item that has ended is one."""

    def __init__(self, job: PreparedAttempt, puts: dict[str, bytes]) -> None:
        grant = job.grant
        self._job = job
        self._puts = puts
        self._room_bytes = grant.requirements.disk_bytes
        self._is_array = grant.items_total is not None
        self._checkpoints = Checkpoints(
            job.freight, job.log, grant.limits.checkpoint_seconds, self._room_bytes
        )
        self.begin(None)

    def begin(self, item: int | None) -> None:
        """From now on what is left is this item's."""
        self.item = item
        self._taking: dict[str, asyncio.Task[None]] = {}  # what has begun to be, by directory

    async def before(self, work: WorkDirectory) -> None:
        """Small things at once; what has to be unpacked takes a while."""
        if self._job.grant.spec.folder is None and self._job.grant.checkpoint is None:
            self._bring(work)
        else:
            await beside(work, self._bring)

    async def during(self, work: WorkDirectory) -> None:
        if not self._is_array:
            await self._checkpoints.keep(work)

    async def after(self, work: WorkDirectory, reason: EndReason) -> None:
        for taking in list(self._taking.values()):
            await asyncio.shield(taking)
        if not self._is_array:
            await self.collect(work)
            await self._once(CHECKPOINT_NAME, self._checkpoints.keep_last(work, reason))
        elif self.item is not None and self._job.recall.said is None:
            await self.collect(work)

    async def collect(self, work: WorkDirectory, directory: str = OUTPUT_NAME) -> None:
        """What is in the output directory now; of an array, as the files of the item that ran."""
        if directory in self._taking or not is_empty(work.descriptor, directory):
            await self._once(directory, self._collect(work, directory))

    async def _once(self, directory: str, taking: Coroutine[Any, Any, None]) -> None:
        """A run that ends while its files are being taken waits for that, and takes none twice."""
        if directory in self._taking:
            taking.close()
        else:
            self._taking[directory] = asyncio.create_task(taking)
            self._taking[directory].add_done_callback(_heard)
        await asyncio.shield(self._taking[directory])

    async def _collect(self, work: WorkDirectory, directory: str) -> None:
        prefix = "" if self.item is None else f"{self.item}/"
        outbox = self._job.freight.outbox

        def copy(there: WorkDirectory) -> list[str]:
            remarks = collect(there, outbox, self._room_bytes, prefix, directory)
            outbox.sync()
            return remarks

        for remark in await beside(work, copy):
            await self._job.log.remark(remark)
        outbox.announce()

    def _bring(self, work: WorkDirectory) -> None:
        spec, inputs = self._job.grant.spec, self._job.inputs
        for path in (OUTPUT_NAME, *(file.path.rpartition("/")[0] for file in spec.files)):
            make_directory(work, path, self._room_bytes)
        if spec.folder is not None:
            unpack(inputs.path_of(spec.folder), work, self._room_bytes)
        if not self._is_array:
            checkpoint = self._job.grant.checkpoint
            archive = None if checkpoint is None else inputs.path_of(checkpoint)
            self._checkpoints.restore(work, archive)
        for path, content in self._puts.items():
            put(work, path, content, self._room_bytes)


def _heard(taking: asyncio.Task[None]) -> None:
    """One whose attempt was called off meets a closed outbox, and nobody waits for it."""
    if not taking.cancelled():
        taking.exception()
