"""Transfers blobs between this node and the server, under the lease of one attempt.

Both directions resume where they were interrupted, also after kill -9. Connection errors are
retried without limit; refusals are raised: StaleLease, QuotaExceeded, NotFound, InvalidInput.
"""

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from potluck.local.durable_files import write_all
from potluck.local.shielded import finish_despite_cancel
from potluck.model.blob import BlobRef
from potluck.model.error import (
    Conflict,
    Forbidden,
    InvalidInput,
    NotFound,
    PotluckError,
    StaleLease,
)
from potluck.model.lease import Lease
from potluck.provider.attempt.unsent_results import UnsentResults
from potluck.provider.files.outbox import Outbox
from potluck.provider.server.server_client import NodeServerClient
from potluck.provider.server.throttle import Throttle
from potluck.wire.files import AddedFile, AddFiles, BeginNodeUpload, KeepCheckpoint, Upload

_MOST_BEGINNINGS = 10

# Reads from a position, at most so many bytes.
Read = Callable[[int, int], bytes]


class BlobTransfer:
    """The transfers of one attempt."""

    def __init__(self, link: NodeServerClient, lease: Lease, throttle: Throttle) -> None:
        self._link = link
        self._lease = lease
        self._throttle = throttle

    async def fetch(
        self, blob: BlobRef, start: int, end: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yields bytes from a position on, up to `end`; may end early, then call it again."""
        async with self._link.open_blob(self._lease, blob.sha256, start, end) as chunks:
            async for chunk in chunks:
                await self._throttle.take(len(chunk))
                yield chunk

    async def pause(self, tries: int) -> None:
        """Waits before a retry."""
        await self._link.pause(tries)

    async def send(self, blob: BlobRef, read: Read) -> None:
        """Uploads the blob; returns when the task's account has it."""
        tries = 0
        while True:
            upload = await self._link.begin_upload(BeginNodeUpload(self._lease, blob))
            try:
                await self._send_parts(upload, blob, read)
            except StaleLease:
                raise
            except (NotFound, Conflict):
                # The upload has expired, or the server has another position: start again.
                tries += 1
                if tries >= _MOST_BEGINNINGS:
                    raise
                await self._link.pause(tries)
            else:
                return

    async def add_files(self, files: tuple[AddedFile, ...]) -> None:
        await self._throttle.take(sum(len(file.data) for file in files))
        await self._link.add_files(AddFiles(self._lease, files))

    async def keep_checkpoint(self, blob: BlobRef) -> None:
        await self._link.keep_checkpoint(KeepCheckpoint(self._lease, blob))

    async def _send_parts(self, upload: Upload, blob: BlobRef, read: Read) -> None:
        while not upload.complete:
            start = upload.parts_done * upload.part_bytes
            if start < blob.size_bytes:
                data = await asyncio.to_thread(read, start, upload.part_bytes)
                await self._throttle.take(len(data))
                number = upload.parts_done
                upload = await self._link.put_part(self._lease, upload.upload_id, number, data)
            else:
                upload = await self._finish(upload)

    async def _finish(self, upload: Upload) -> Upload:
        """Polls until the server has assembled the upload."""
        tries = 0
        while not (done := await self._link.finish_upload(self._lease, upload.upload_id)).complete:
            tries += 1
            await self._link.pause(tries)
        return done


class AttemptTransfers(Struct, frozen=True):
    """The transfers of one attempt: `outbox` is uploaded in the background, `courier` transfers
    immediately, `backlog` holds results that are sent with reports."""

    outbox: Outbox
    courier: BlobTransfer
    backlog: UnsentResults = field(default_factory=UnsentResults)


_READ_BYTES = 2**20
# Read-only, accessible to the task's user, and executable in case it is a program.
_SHOWN = 0o555
_WRONG_TRIES = 3
# Of the server: trying again does not help.
REFUSALS = (NotFound, Conflict, Forbidden, InvalidInput)


class Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


class BlobDamaged(Exception):
    """The received bytes have a wrong hash, even after retries."""


async def fetch(courier: BlobTransfer, blob: BlobRef, path: Path) -> int:
    """Downloads to `path`, complete, verified and read-only; returns the received bytes.

    Raises the server's refusals, and BlobDamaged.
    """
    part = path.with_name(f"{path.name}.part")
    received_bytes = 0
    for _ in range(_WRONG_TRIES):
        digest = hashlib.sha256()
        received_bytes += await _complete(courier, blob, part, digest)
        if digest.hexdigest() == blob.sha256:
            await asyncio.to_thread(_seal, part, path)
            return received_bytes
        part.unlink()
    raise BlobDamaged


async def _complete(courier: BlobTransfer, blob: BlobRef, part: Path, digest: Hash) -> int:
    """Appends to the partial file until it has its full size; returns the received bytes."""
    size = first = await asyncio.to_thread(_resume, part, blob.size_bytes, digest)
    tries = 0
    with part.open("ab") as file:
        while size < blob.size_bytes:
            before = size
            try:
                async with aclosing(courier.fetch(blob, size)) as chunks:
                    async for chunk in chunks:
                        piece = chunk[: blob.size_bytes - size]
                        await finish_despite_cancel(
                            asyncio.to_thread(_append, file.fileno(), piece, digest)
                        )
                        size += len(piece)
                        if size == blob.size_bytes:
                            break
            except REFUSALS:
                raise
            except PotluckError:
                pass  # a connection error: resumes at the current position
            tries = 0 if size > before else tries + 1
            if size < blob.size_bytes:
                await courier.pause(tries)
    return size - first


def _resume(part: Path, most_bytes: int, digest: Hash) -> int:
    """Returns the size of an earlier partial file, and adds it to the hash."""
    part.touch(mode=0o600)
    os.truncate(part, min(part.stat().st_size, most_bytes))
    size = 0
    with part.open("rb") as file:
        while data := file.read(_READ_BYTES):
            digest.update(data)
            size += len(data)
    return size


def _append(descriptor: int, data: bytes, digest: Hash) -> None:
    digest.update(data)
    write_all(descriptor, data)


def _seal(part: Path, path: Path) -> None:
    """Not synced: files are hashed again after a restart before they are used."""
    part.chmod(_SHOWN)
    part.replace(path)
