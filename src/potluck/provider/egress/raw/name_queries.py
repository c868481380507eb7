"""Reads and answers queries of the sandbox's resolver: addresses of names, and nothing else."""

import struct
from collections.abc import Sequence
from ipaddress import IPv4Address

from msgspec import Struct

_HEADER_BYTES = 12
_RESPONSE, _RECURSION_DESIRED, _RECURSION_AVAILABLE = 0x8000, 0x0100, 0x0080
_IN = 1
A, AAAA = 1, 28
NO_ERROR, FAILED, NO_NAME, NOT_IMPLEMENTED = 0, 2, 3, 4
_POINTER_TO_QUESTION = 0xC000 | _HEADER_BYTES
_MOST_ADDRESSES = 16  # so that an answer always fits into 512 bytes


class NameQuery(Struct, frozen=True):
    number: bytes
    flags: int
    question: bytes
    name: str
    kind: int


def read_query(data: bytes) -> NameQuery | None:
    """None for what is not a query for one name."""
    try:
        flags, questions = struct.unpack(">HH", data[2:6])
        if flags & _RESPONSE or questions != 1:
            return None
        labels, position = [], _HEADER_BYTES
        while size := data[position]:
            labels.append(data[position + 1 : position + 1 + size].decode("ascii"))
            position += 1 + size
        kind, family = struct.unpack(">HH", data[position + 1 : position + 5])
    except (struct.error, IndexError, UnicodeDecodeError):
        return None
    if family != _IN or not labels:
        return None
    question = data[_HEADER_BYTES : position + 5]
    return NameQuery(data[:2], flags, question, ".".join(labels).lower(), kind)


def write_answer(query: NameQuery, code: int, addresses: Sequence[IPv4Address] = ()) -> bytes:
    answers = addresses[:_MOST_ADDRESSES] if query.kind == A else ()
    flags = _RESPONSE | _RECURSION_AVAILABLE | query.flags & _RECURSION_DESIRED | code
    head = query.number + struct.pack(">HHHHH", flags, 1, len(answers), 0, 0)
    records = b"".join(
        struct.pack(">HHHIH", _POINTER_TO_QUESTION, A, _IN, 0, 4) + address.packed
        for address in answers
    )
    return head + query.question + records
