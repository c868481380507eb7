"""Brings inputs into a task's work directory, and collects its outputs and checkpoints."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from msgspec import Struct

from potluck.model.blob import BlobRef
from potluck.model.task import EndReason
from potluck.model.task_spec import FunctionSpec
from potluck.provider.attempt.checkpoint import NAME as CHECKPOINT_NAME
from potluck.provider.attempt.checkpoint import Checkpoints
from potluck.provider.attempt.kinds import PreparedAttempt
from potluck.provider.files.in_thread import run_in_thread
from potluck.provider.files.new_files import NewFiles
from potluck.provider.files.output_upload import OUTPUT_NAME, collect_new_files, collect_outputs
from potluck.provider.files.unpack import make_directory, put_file, unpack
from potluck.provider.files.walk import is_empty
from potluck.provider.sandbox.driver import WORK, WorkDirectory
from potluck.wire.consumer import OUTPUT_REMARK


class InputFiles(Struct, frozen=True):
    """Verified input files, which stay unchanged until the attempt releases them."""

    paths: dict[str, Path] = {}  # by sha256
    fetched_bytes: int = 0  # bytes that were not cached
    volumes: dict[str, Path] = {}  # trees of volumes, by their paths in the task

    def path_of(self, blob: BlobRef) -> Path:
        return self.paths[blob.sha256]


class AttemptFiles:
    """The Errand of one run. Items of an array have their own outputs and no checkpoints: a
    finished item is one."""

    def __init__(self, job: PreparedAttempt, puts: dict[str, bytes]) -> None:
        grant = job.grant
        self._job = job
        self._puts = puts
        self._room_bytes = grant.requirements.disk_bytes
        self._is_array = grant.items_total is not None
        self._checkpoints = Checkpoints(
            job.freight, job.log, grant.limits.checkpoint_seconds, self._room_bytes
        )
        spec = grant.spec
        # The directory of a function is that of an interpreter, which serves many attempts: what is
        # new is known only from call to call, and sought only to keep it.
        new = NewFiles(
            grant.limits.keep,
            (
                *(OUTPUT_NAME, CHECKPOINT_NAME, *(file.path for file in spec.files)),
                *(path.removeprefix(f"{WORK}/") for path in job.inputs.volumes),
            ),
        )
        is_function = isinstance(spec, FunctionSpec)
        self._new = None if is_function else new
        self._new_of_calls = new if is_function and new.patterns else None
        self._looked_at: int | None = None  # the item whose new files were counted
        self._has_looked = False
        self.begin(None)

    def begin(self, item: int | None) -> None:
        """Outputs belong to this item from now on."""
        self.item = item
        self._collecting: dict[str, asyncio.Task[None]] = {}  # by directory

    async def before(self, work: WorkDirectory) -> None:
        """Unpacks archives in a thread, since that takes a while. Returns when it is its turn."""
        if self._job.grant.spec.folder is None and self._job.grant.checkpoint is None:
            self._bring(work)
        else:
            await run_in_thread(work, self._bring)
        await self._job.its_turn()

    async def during(self, work: WorkDirectory) -> None:
        if not self._is_array:
            await self._checkpoints.keep(work)

    async def after(self, work: WorkDirectory, reason: EndReason) -> None:
        for collecting in list(self._collecting.values()):
            await asyncio.shield(collecting)
        if not self._is_array:
            await self.collect(work)
            await self._once(CHECKPOINT_NAME, self._checkpoints.keep_last(work, reason))
        elif self.item is not None and self._job.recall.said is None:
            await self.collect(work)

    async def collect(self, work: WorkDirectory, directory: str = OUTPUT_NAME) -> None:
        """Collects the output directory; in an array, as the files of the current item."""
        is_known = directory in self._collecting
        if is_known or self._looks_for_new or not is_empty(work.descriptor, directory):
            await self._once(directory, self._collect(work, directory))

    @property
    def keeps_new_of_calls(self) -> bool:
        """Whether each call of a function has to be followed by `keep_new_of_call`."""
        return self._new_of_calls is not None

    async def note_before_call(self, work: WorkDirectory) -> None:
        """What is there now is not new."""
        if (new := self._new_of_calls) is not None:
            await run_in_thread(work, new.note)

    async def keep_new_of_call(self, work: WorkDirectory, item: int | None) -> None:
        """Keeps matching files that a call, or an item, has left; for the next one they are old."""
        if (new := self._new_of_calls) is None:
            return
        prefix, outbox = "" if item is None else f"{item}/", self._job.freight.outbox

        def copy(there: WorkDirectory) -> list[str]:
            remarks = collect_new_files(there, outbox, self._room_bytes, prefix, new)
            outbox.sync()
            new.note(there)
            return remarks

        for remark in await run_in_thread(work, copy):
            await self._job.log.remark(remark)
        outbox.announce()

    async def tell_lost(self) -> None:
        """Names new files that were not kept, at the end of the attempt; of an array, those of its
        first item."""
        whose = "" if self._looked_at is None else f" of item {self._looked_at}"
        if self._new is not None and (sentence := self._new.describe_lost(whose)):
            await self._job.log.remark(f"{OUTPUT_REMARK}{sentence}")

    @property
    def _looks_for_new(self) -> bool:
        """To keep them, or for one sentence at the end: every item would take too long."""
        return self._new is not None and (bool(self._new.patterns) or not self._has_looked)

    async def _once(self, directory: str, collecting: Coroutine[Any, Any, None]) -> None:
        """A run that ends during a collection waits for it, and collects nothing twice."""
        if directory in self._collecting:
            collecting.close()
        else:
            self._collecting[directory] = asyncio.create_task(collecting)
            self._collecting[directory].add_done_callback(_retrieve_exception)
        await asyncio.shield(self._collecting[directory])

    async def _collect(self, work: WorkDirectory, directory: str) -> None:
        prefix = "" if self.item is None else f"{self.item}/"
        outbox = self._job.freight.outbox
        new = self._new if self._looks_for_new else None
        if not self._has_looked:
            self._has_looked, self._looked_at = True, self.item

        def copy(there: WorkDirectory) -> list[str]:
            remarks = collect_outputs(there, outbox, self._room_bytes, prefix, directory)
            if new is not None:
                remarks += collect_new_files(there, outbox, self._room_bytes, prefix, new)
            outbox.sync()
            return remarks

        for remark in await run_in_thread(work, copy):
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
            put_file(work, path, content, self._room_bytes)
        if self._new is not None:
            self._new.note(work)


def _retrieve_exception(collecting: asyncio.Task[None]) -> None:
    """Retrieves the exception: after a cancellation the outbox is closed and nothing awaits it."""
    if not collecting.cancelled():
        collecting.exception()
