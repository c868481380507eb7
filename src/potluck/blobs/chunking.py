"""Pieces that come in any size, handed on in steps that are worth a write."""

from collections.abc import AsyncIterator

from potluck.blobs.interface import STEP_BYTES


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
