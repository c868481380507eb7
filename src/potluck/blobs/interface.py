"""Bytes under names: logs, inputs, results, files.

What was put is whole and on the disk when `put` returns; a reader sees the old bytes or the new,
never a part. Names are ours, never a user's: see `key`.
"""

from collections.abc import Sequence
from typing import Protocol


class Blobs(Protocol):
    async def put(self, key: str, data: bytes) -> None:
        """Keeps the bytes, in place of any that were there."""
        ...

    async def get(self, key: str) -> bytes:
        """Raises `NotFound` where there is none."""
        ...

    async def get_range(self, key: str, offset: int, length: int) -> bytes:
        """Less than `length` where the blob ends before."""
        ...

    async def exists(self, key: str) -> bool: ...

    async def list(self, prefix: str) -> list[str]:
        """All keys below a prefix, which is empty or ends with a slash, in order."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """One that is not there is no error."""
        ...
