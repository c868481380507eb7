"""Which blocks to read next, and whether the chain is still the one that was read.

Only blocks with enough confirmations are read. The last one that was read is compared by its hash
each time: if it is no longer in the chain, a reorganisation was deeper than the confirmations.
"""

from typing import TypeAlias

from msgspec import Struct


class ScanCursor(Struct, frozen=True):
    """The last block that was read; no hash: none was."""

    block: int
    hash: bytes | None


class ScanRange(Struct, frozen=True):
    """Both included."""

    first: int
    last: int


class NothingNew(Struct, frozen=True):
    pass


class Reorganised(Struct, frozen=True):
    """Blocks that counted as final are no longer in the chain."""

    block: int


ScanStep: TypeAlias = ScanRange | NothingNew | Reorganised


def next_scan(
    cursor: ScanCursor, hash_now: bytes | None, head: int, confirmations: int, most_blocks: int
) -> ScanStep:
    """`hash_now`: of the cursor's block, as the chain has it; None if it has no such block.

    A chain that ends before the cursor may be an endpoint that is behind: it is waited for.
    """
    safe = head - confirmations
    if cursor.hash is not None and hash_now is not None and hash_now != cursor.hash:
        return Reorganised(cursor.block)
    if safe <= cursor.block or (cursor.hash is not None and hash_now is None):
        return NothingNew()
    return ScanRange(cursor.block + 1, min(safe, cursor.block + most_blocks))
