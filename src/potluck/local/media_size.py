"""Media types by file name, and the size of a picture or a table, read without a library.

Files are untrusted: an inconsistent one has no size, and nothing is executed. The footer of a
Parquet file is a struct in Thrift's compact protocol: its second field is the schema, a list whose
elements without children are the columns, and its third the number of rows.
"""

import csv
import mimetypes
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

PICTURES = {"image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml"}
TABLES = {"text/csv", "text/tab-separated-values", "application/vnd.apache.parquet"}
DRAWN = {"text/csv", "text/tab-separated-values"}  # the tables that are plain text
# The system's own list differs from machine to machine.
_KNOWN = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "svg": "image/svg+xml",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "parquet": "application/vnd.apache.parquet",
    "json": "application/json",
    "txt": "text/plain",
    "log": "text/plain",
    "md": "text/markdown",
    "npy": "application/x-npy",
    "npz": "application/x-npz",
    "pt": "application/x-pytorch",
    "safetensors": "application/x-safetensors",
}
_MAGIC = b"PAR1"
_MOST_FOOTER_BYTES = 16 * 2**20
_MOST_DEPTH = 20
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_SCHEMA, _ROWS = 2, 3
_CHILDREN = 5  # of an element of the schema
_HEAD_BYTES = 262_144  # a camera's metadata may precede the size of a JPEG
_MOST_CSV_BYTES = 64 * 2**20
_SVG_SIDE = r"""<svg\b[^>]*?\s%s\s*=\s*["']\s*([0-9.]+)\s*(?:px)?\s*["']"""
_VIEW_BOX = re.compile(r"""<svg\b[^>]*?\sviewBox\s*=\s*["']([^"']*)["']""")


def media_type(path: str) -> str:
    """Guesses from the name alone."""
    suffix = path.rpartition(".")[2].lower() if "." in path else ""
    return _KNOWN.get(suffix) or mimetypes.guess_type(path)[0] or "application/octet-stream"


def parquet_shape(path: Path) -> tuple[int, int] | None:
    """Rows and columns; None if it is not a valid Parquet file."""
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
        return _shape(_ThriftReader(footer).struct())
    except (IndexError, ValueError):
        return None


def _shape(footer: dict[int, object]) -> tuple[int, int] | None:
    schema, rows = footer.get(_SCHEMA), footer.get(_ROWS)
    if not isinstance(schema, list) or not isinstance(rows, int) or rows < 0:
        return None
    return rows, sum(isinstance(field, dict) and not field.get(_CHILDREN) for field in schema)


class _ThriftReader:
    """Reads consecutive values; raises IndexError or ValueError for invalid ones."""

    def __init__(self, data: bytes):
        self._data = data
        self._place = 0

    def struct(self, depth: int = 0) -> dict[int, object]:
        fields: dict[int, object] = {}
        field = 0
        while header := self._byte():
            kind, step = header & 0x0F, header >> 4
            field = field + step if step else self._number()
            fields[field] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> object:
        if depth > _MOST_DEPTH:
            raise ValueError("it is nested too deeply")
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
        raise ValueError("a footer has no such type")

    def _list(self, depth: int) -> list[object]:
        header = self._byte()
        count = header >> 4 if header >> 4 < 15 else self._varint()
        if count > len(self._data):
            raise ValueError("the list is longer than the footer")
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
                raise ValueError("the number is too long")
        return value | byte << shift

    def _number(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


class MediaSize(Struct, frozen=True):
    """In pixels, or in columns and rows; those of a CSV include its header."""

    width: int
    height: int


def measure_media(path: Path) -> MediaSize | None:
    """The size; None if the file is neither, does not tell, or is too large to count."""
    kind = media_type(path.name)
    try:
        if kind == "application/vnd.apache.parquet":
            shape = parquet_shape(path)
            return None if shape is None else MediaSize(shape[1], shape[0])
        if kind in ("text/csv", "text/tab-separated-values"):
            return _of_lines(path, "\t" if kind.endswith("values") else ",")
        with path.open("rb") as file:
            return measure_picture(file.read(_HEAD_BYTES), kind)
    except (OSError, ValueError, csv.Error):
        return None


def measure_picture(head: bytes, kind: str) -> MediaSize | None:
    """The size of a picture, from its first bytes."""
    try:
        sides = _sides(head, kind)
    except (struct.error, ValueError):
        return None
    return None if sides is None or min(sides) < 1 else MediaSize(*sides)


def _sides(head: bytes, kind: str) -> tuple[int, int] | None:
    if kind == "image/png" and head.startswith(b"\x89PNG\r\n\x1a\n"):
        width, height = struct.unpack(">II", head[16:24])
        return width, height
    if kind == "image/gif" and head[:6] in (b"GIF87a", b"GIF89a"):
        width, height = struct.unpack("<HH", head[6:10])
        return width, height
    if kind == "image/jpeg":
        return _of_jpeg(head)
    if kind == "image/svg+xml":
        return _of_svg(head.decode("utf-8", "replace"))
    return None


def _of_jpeg(head: bytes) -> tuple[int, int] | None:
    """From the header of the first frame."""
    for marker, start in _segments(head):
        is_frame = 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC)
        if is_frame:
            height, width = struct.unpack(">HH", head[start + 3 : start + 7])
            return width, height
    return None


def _segments(head: bytes) -> Iterator[tuple[int, int]]:
    place = 2
    while head.startswith(b"\xff\xd8") and place + 4 <= len(head) and head[place] == 0xFF:
        yield head[place + 1], place + 2
        (size,) = struct.unpack(">H", head[place + 2 : place + 4])
        place += 2 + max(size, 2)


def _of_svg(text: str) -> tuple[int, int] | None:
    sides = [re.search(_SVG_SIDE % side, text) for side in ("width", "height")]
    if all(sides):
        width, height = (round(float(side[1])) for side in sides if side)
        return width, height
    box = _VIEW_BOX.search(text)
    if box is None:
        return None
    _, _, wide, high = re.split(r"[\s,]+", box[1].strip())
    return round(float(wide)), round(float(high))


def _of_lines(path: Path, separator: str) -> MediaSize | None:
    if path.stat().st_size > _MOST_CSV_BYTES:
        return None
    columns = rows = 0
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        for row in csv.reader(file, delimiter=separator):
            rows += 1
            columns = columns or len(row)
    return MediaSize(columns, rows) if rows else None
