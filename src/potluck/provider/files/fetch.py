"""Brings a blob to this node's disk, and goes on where it was cut: by the line, or by kill -9."""

import asyncio
import hashlib
import os
from contextlib import aclosing
from pathlib import Path
from typing import Protocol

from potluck.local.shielded import undisturbed
from potluck.local.write_all import write_all
from potluck.model.blob import BlobRef
from potluck.model.error import Conflict, Forbidden, InvalidInput, NotFound, PotluckError
from potluck.provider.files.blob_transfer import Courier

_READ_BYTES = 2**20
# Read-only, also for the user that the task is; and it may be a program.
_SHOWN = 0o555
_WRONG_TRIES = 3
_REFUSALS = (NotFound, Conflict, Forbidden, InvalidInput)


class Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


class Damaged(Exception):
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
    raise Damaged


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
