"""Bytes under keys: logs, inputs, results, files.

A blob is complete and durable when `put` returns; a reader sees the old bytes or the new, never a
part. Only a small part of a large blob is in memory at a time. Keys become file names and object
names: lower-case segments between slashes. Users never choose them, so an invalid one is a bug.
"""

import re
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from msgspec import Struct

_SEGMENT = "[a-z0-9_][a-z0-9_.-]{0,127}"
_KEY = re.compile(f"{_SEGMENT}(/{_SEGMENT}){{0,7}}")


def check_key(key: str) -> str:
    assert _KEY.fullmatch(key), f"not a blob key: {key!r}"
    return key


def check_prefix(prefix: str) -> str:
    """A prefix has whole segments: `logs/a/` does not match `logs/ab/`."""
    assert not prefix or prefix.endswith("/"), f"a prefix ends with a slash: {prefix!r}"
    if prefix:
        check_key(prefix[:-1])
    return prefix


# Read or written at a time; a thousand clients need a thousand such buffers.
STEP_BYTES = 2**18


class Assembled(Struct, frozen=True):
    """The hash and size of an assembled blob."""

    sha256: str
    size_bytes: int


class Blobs(Protocol):
    async def put(self, key: str, data: bytes) -> None:
        """Stores the bytes, replacing any previous ones."""
        ...

    async def put_stream(self, key: str, pieces: AsyncIterator[bytes]) -> None:
        """Stores the bytes as they arrive; nothing if the iteration fails."""
        ...

    async def assemble(self, parts: Sequence[str], key: str) -> Assembled:
        """Concatenates these parts into a new blob; the parts stay."""
        ...

    async def get(self, key: str) -> bytes:
        """Raises `NotFound` if there is none."""
        ...

    def stream(self, key: str, offset: int, length: int) -> AsyncIterator[bytes]:
        """The bytes of a range, piece by piece; less than `length` if the blob ends before."""
        ...

    async def list(self, prefix: str) -> list[str]:
        """All keys below a prefix, which is empty or ends with a slash, in order."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """A missing key is not an error."""
        ...

    async def check(self) -> None:
        """Raises if nothing can be stored now."""
        ...

    async def sign(self, key: str, seconds: float) -> str | None:
        """A URL from which anyone can read the blob for this time; None if unsupported."""
        ...


async def rechunk(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in pieces of at least STEP_BYTES."""
    gathered, size_bytes = [], 0
    async for piece in pieces:
        gathered.append(piece)
        size_bytes += len(piece)
        if size_bytes >= STEP_BYTES:
            yield b"".join(gathered)
            gathered, size_bytes = [], 0
    if gathered:
        yield b"".join(gathered)
