"""How many rows and columns a Parquet file has, from its own footer, without a library for it.

The footer is a struct in Thrift's compact protocol: its second field is the schema, a list of which
those without children are columns, and its third the number of rows.
"""

import struct
from pathlib import Path

_MAGIC = b"PAR1"
_MOST_FOOTER_BYTES = 16 * 2**20
_MOST_DEPTH = 20

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_SCHEMA, _ROWS = 2, 3
_CHILDREN = 5  # of an element of the schema


def shape(path: Path) -> tuple[int, int] | None:
    """Rows and columns; None if it is no such file."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size < 12:
            return None
        file.seek(size - 8)
        (length,) = struct.unpack("<I", file.read(4))
        if file.read(4) != _MAGIC or length > min(size - 12, _MOST_FOOTER_BYTES):
            return None
        file.seek(size - 8 - length)
        footer = file.read(length)
    try:
        return _shape(_Reader(footer).struct())
    except (IndexError, ValueError):
        return None


def _shape(told: dict[int, object]) -> tuple[int, int] | None:
    schema, rows = told.get(_SCHEMA), told.get(_ROWS)
    if not isinstance(schema, list) or not isinstance(rows, int) or rows < 0:
        return None
    return rows, sum(isinstance(each, dict) and not each.get(_CHILDREN) for each in schema)


class _Reader:
    """Values one behind the other; raises IndexError or ValueError where they do not fit."""

    def __init__(self, data: bytes):
        self._data = data
        self._place = 0

    def struct(self, depth: int = 0) -> dict[int, object]:
        found: dict[int, object] = {}
        field = 0
        while header := self._byte():
            kind, step = header & 0x0F, header >> 4
            field = field + step if step else self._number()
            found[field] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> object:
        if depth > _MOST_DEPTH:
            raise ValueError("it is nested too deep")
        if kind in (_TRUE, _FALSE, _BYTE):  # in lists, a bool is a byte
            return self._byte()
        if kind in (_I16, _I32, _I64):
            return self._number()
        if kind == _DOUBLE:
            return self._skipped(8)
        if kind == _BINARY:
            return self._skipped(self._varint())
        if kind in (_LIST, _SET):
            return self._list(depth)
        if kind == _STRUCT:
            return self.struct(depth + 1)
        raise ValueError("the footer has no such field")

    def _list(self, depth: int) -> list[object]:
        header = self._byte()
        count = header >> 4 if header >> 4 < 15 else self._varint()
        if count > len(self._data):
            raise ValueError("it can not be so long")
        return [self._value(header & 0x0F, depth + 1) for _ in range(count)]

    def _byte(self) -> int:
        self._place += 1
        return self._data[self._place - 1]

    def _skipped(self, count: int) -> int:
        self._place += count
        if self._place > len(self._data):
            raise IndexError
        return count

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > 63:
                raise ValueError("no number is so long")
        return value | byte << shift

    def _number(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
