"""Carries bytes between this node and the server, under the lease of one attempt.

Both ways go on where they were cut. Whatever is a matter of the line is repeated until it works;
what the server refuses is raised: StaleLease, QuotaExceeded, NotFound, InvalidInput.
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
from potluck.local.shielded import undisturbed
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
from potluck.provider.attempt.unsent_results import Backlog
from potluck.provider.files.outbox import Outbox
from potluck.provider.server.server_client import Link
from potluck.provider.server.throttle import Throttle
from potluck.wire.files import AddedFile, AddFiles, BeginNodeUpload, KeepCheckpoint, Upload

_MOST_BEGINNINGS = 10

# Bytes of what is sent, from a position on, so many at most.
Read = Callable[[int, int], bytes]


class Courier:
    """For one attempt."""

    def __init__(self, link: Link, lease: Lease, throttle: Throttle) -> None:
        self._link = link
        self._lease = lease
        self._throttle = throttle

    async def fetch(self, blob: BlobRef, start: int) -> AsyncGenerator[bytes, None]:
        """Its bytes from a position on, as far as they come: who gets too few asks again."""
        async with self._link.open_blob(self._lease, blob.sha256, start) as chunks:
            async for chunk in chunks:
                await self._throttle.take(len(chunk))
                yield chunk

    async def pause(self, tries: int) -> None:
        """Before another try."""
        await self._link.pause(tries)

    async def send(self, blob: BlobRef, read: Read) -> None:
        """Returns when the task's account has it."""
        tries = 0
        while True:
            upload = await self._link.begin_upload(BeginNodeUpload(self._lease, blob))
            try:
                await self._send_parts(upload, blob, read)
            except StaleLease:
                raise
            except (NotFound, Conflict):
                # It lay idle for too long, or the server is not where we thought: asked anew.
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
        """A large one takes the server a while; it is asked again until it is done."""
        tries = 0
        while not (done := await self._link.finish_upload(self._lease, upload.upload_id)).complete:
            tries += 1
            await self._link.pause(tries)
        return done


class Freight(Struct, frozen=True):
    """What leaves is put into the outbox, which somebody carries to the server; what can not wait
    for that is the courier's to bring or fetch at once. What goes with reports waits with them."""

    outbox: Outbox
    courier: Courier
    backlog: Backlog = field(default_factory=Backlog)


_READ_BYTES = 2**20
# Read-only, also for the user that the task is; and it may be a program.
_SHOWN = 0o555
_WRONG_TRIES = 3
_REFUSALS = (NotFound, Conflict, Forbidden, InvalidInput)


class Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


class BlobDamaged(Exception):
    """What came is not what was named, however often it was asked for."""


async def fetch(courier: Courier, blob: BlobRef, path: Path) -> int:
    """The file is there when this returns, whole, checked and not to be written to.

    Answers how many bytes came for it. Raises what the server refuses, and Damaged.
    """
    part = path.with_name(f"{path.name}.part")
    came_bytes = 0
    for _ in range(_WRONG_TRIES):
        digest = hashlib.sha256()
        came_bytes += await _complete(courier, blob, part, digest)
        if digest.hexdigest() == blob.sha256:
            await asyncio.to_thread(_seal, part, path)
            return came_bytes
        part.unlink()
    raise BlobDamaged


async def _complete(courier: Courier, blob: BlobRef, part: Path, digest: Hash) -> int:
    """How many bytes came, once it is as long as it should be."""
    size = first = await asyncio.to_thread(_take_up, part, blob.size_bytes, digest)
    tries = 0
    with part.open("ab") as file:
        while size < blob.size_bytes:
            before = size
            try:
                async with aclosing(courier.fetch(blob, size)) as chunks:
                    async for chunk in chunks:
                        piece = chunk[: blob.size_bytes - size]
                        await undisturbed(asyncio.to_thread(_append, file.fileno(), piece, digest))
                        size += len(piece)
                        if size == blob.size_bytes:
                            break
            except _REFUSALS:
                raise
            except PotluckError:
                pass  # silence is not death: it goes on where it was
            tries = 0 if size > before else tries + 1
            if size < blob.size_bytes:
                await courier.pause(tries)
    return size - first


def _take_up(part: Path, most_bytes: int, digest: Hash) -> int:
    """How much an earlier try has left; it is read again for the hash."""
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
    """Not synced: what a lost power line leaves is hashed before it is used again."""
    part.chmod(_SHOWN)
    part.replace(path)
