"""Bytes as asynchronous pieces: from memory, from a file, hashed on the way."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO

from potluck.blobs.interface import STEP_BYTES


async def pieces_of(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def pieces_of_file(file: IO[bytes]) -> AsyncIterator[bytes]:
    while piece := file.read(STEP_BYTES):
        yield piece


async def pieces_of_path(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        async for piece in pieces_of_file(file):
            yield piece


async def join(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])


class Digest:
    """The hash and the size of the bytes that pass."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.size_bytes = 0

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    async def over(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for piece in pieces:
            self._hash.update(piece)
            self.size_bytes += len(piece)
            yield piece

    async def drain(self, pieces: AsyncIterator[bytes]) -> None:
        async for _ in self.over(pieces):
            pass
