"""Records in an append-only file: length, checksum, payload.

A file that was cut in the middle of a write (a crash, a full disk, a lost power line) reads as the
records before the cut; what follows is not guessed at.
"""

import struct
from collections.abc import Iterator
from zlib import crc32

_HEAD = struct.Struct("<II")
HEAD_BYTES = _HEAD.size


def frame(payload: bytes) -> bytes:
    return _HEAD.pack(len(payload), crc32(payload)) + payload


def frames(content: bytes, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """The end position and the payload of each whole record."""
    position = start
    while position + HEAD_BYTES <= len(content):
        length, checksum = _HEAD.unpack_from(content, position)
        position += HEAD_BYTES
        payload = content[position : position + length]
        if len(payload) < length or crc32(payload) != checksum:
            return
        position += length
        yield position, payload
