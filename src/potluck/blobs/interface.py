"""Bytes under names: logs, inputs, results, files.

What was put is whole and on the disk when `put` returns; a reader sees the old bytes or the new,
never a part. Names are ours, never a user's: see `key`. However large something is, little of it is
in memory at a time.
"""

import re
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from msgspec import Struct

_SEGMENT = "[a-z0-9_][a-z0-9_.-]{0,127}"
_KEY = re.compile(f"{_SEGMENT}(/{_SEGMENT}){{0,7}}")


def check_key(key: str) -> str:
    assert _KEY.fullmatch(key), f"not a blob's name: {key!r}"
    return key


def check_prefix(prefix: str) -> str:
    """Whole segments only: `logs/a/` has nothing of `logs/ab/`."""
    assert not prefix or prefix.endswith("/"), f"a prefix ends with a slash: {prefix!r}"
    if prefix:
        check_key(prefix[:-1])
    return prefix


# How much of what may be large is read or written at once: a thousand clients have a thousand such.
STEP_BYTES = 2**18


class Assembled(Struct, frozen=True):
    """What the bytes are that were put together."""

    sha256: str
    size_bytes: int


class Blobs(Protocol):
    async def put(self, key: str, data: bytes) -> None:
        """Keeps the bytes, in place of any that were there."""
        ...

    async def put_stream(self, key: str, pieces: AsyncIterator[bytes]) -> None:
        """The same, as they come; nothing if they do not come to their end."""
        ...

    async def assemble(self, parts: Sequence[str], key: str) -> Assembled:
        """Puts together what is kept under the keys of these parts, which stay."""
        ...

    async def get(self, key: str) -> bytes:
        """Raises `NotFound` where there is none."""
        ...

    def stream(self, key: str, offset: int, length: int) -> AsyncIterator[bytes]:
        """The bytes of a range, piece by piece; less than `length` where the blob ends before."""
        ...

    async def list(self, prefix: str) -> list[str]:
        """All keys below a prefix, which is empty or ends with a slash, in order."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """One that is not there is no error."""
        ...

    async def sign(self, key: str, seconds: float) -> str | None:
        """An address from which anybody may read it for so long; none if the store has no such."""
        ...


async def in_steps(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    gathered, size_bytes = [], 0
    async for piece in pieces:
        gathered.append(piece)
        size_bytes += len(piece)
        if size_bytes >= STEP_BYTES:
            yield b"".join(gathered)
            gathered, size_bytes = [], 0
    if gathered:
        yield b"".join(gathered)
