"""Many values in one file: their count, their offsets, then the values.

All numbers are 64 bits, little-endian: `count`, then `count + 1` offsets into the values, the last
of which is their total size. So an item can be read without reading the others.
"""

import struct
from collections.abc import Sequence
from itertools import accumulate, pairwise

from potluck.model.error import InvalidInput

_NUMBER = struct.Struct("<Q")


def pack(values: Sequence[bytes]) -> bytes:
    offsets = list(accumulate(map(len, values), initial=0))
    return b"".join((struct.pack(f"<{len(offsets) + 1}Q", len(values), *offsets), *values))


def index_bytes(count: int) -> int:
    """The size of the count and the offsets."""
    return _NUMBER.size * (count + 2)


def unpack(data: bytes, most: int) -> list[bytes]:
    """Returns all values. Raises InvalidInput for a damaged file or more than `most` values."""
    if len(data) < _NUMBER.size:
        raise _damaged()
    (count,) = _NUMBER.unpack_from(data)
    begin = index_bytes(count)
    if count > most or len(data) < begin:
        raise _damaged()
    offsets = struct.unpack_from(f"<{count + 1}Q", data, _NUMBER.size)
    is_whole = offsets[0] == 0 and offsets[-1] == len(data) - begin
    if not is_whole or any(a > b for a, b in pairwise(offsets)):
        raise _damaged()
    return [data[begin + a : begin + b] for a, b in pairwise(offsets)]


def _damaged() -> InvalidInput:
    return InvalidInput("The values of the items are damaged.")
