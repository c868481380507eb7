"""Which blocks are read, and when the chain is no longer the one that was read."""

import pytest

from potluck.decide.payouts.scan import (
    NothingNew,
    Reorganised,
    ScanCursor,
    ScanRange,
    ScanStep,
    next_scan,
)

_A, _B = b"a" * 32, b"b" * 32


@pytest.mark.parametrize(
    ("cursor", "hash_now", "head", "expected"),
    [
        (ScanCursor(9, None), None, 12, NothingNew()),
        (ScanCursor(9, None), None, 13, ScanRange(10, 10)),
        (ScanCursor(9, None), None, 1000, ScanRange(10, 109)),
        (ScanCursor(10, _A), _A, 13, NothingNew()),
        (ScanCursor(10, _A), _A, 14, ScanRange(11, 11)),
        (ScanCursor(10, _A), _B, 14, Reorganised(10)),
        (ScanCursor(10, _A), _B, 11, Reorganised(10)),
        # An endpoint that is behind, or a chain that has not grown back yet.
        (ScanCursor(10, _A), None, 8, NothingNew()),
        (ScanCursor(10, _A), None, 20, NothingNew()),
    ],
)
def test_only_confirmed_blocks_of_the_same_chain_are_read(
    cursor: ScanCursor, hash_now: bytes | None, head: int, expected: ScanStep
) -> None:
    assert next_scan(cursor, hash_now, head, confirmations=3, most_blocks=100) == expected
