"""How large a picture or a table is, found out from a few of its bytes, by nobody's library.

Files come from strangers: what does not fit together has no measure, and nothing is ever run.
"""

import csv
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from potluck.local import parquet
from potluck.local.media_type import media_type

_HEAD_BYTES = 262_144  # where a camera's own notes may stand before a JPEG's size
_MOST_CSV_BYTES = 64 * 2**20
_SVG_SIDE = r"""<svg\b[^>]*?\s%s\s*=\s*["']\s*([0-9.]+)\s*(?:px)?\s*["']"""
_VIEW_BOX = re.compile(r"""<svg\b[^>]*?\sviewBox\s*=\s*["']([^"']*)["']""")


class Size(Struct, frozen=True):
    """Of a picture in pixels, of a table in rows; of a CSV they are lines, the first among them."""

    width: int
    height: int


def measured(path: Path) -> Size | None:
    """None if it is neither, if it does not say, or if finding out would take long."""
    kind = media_type(path.name)
    try:
        if kind == "application/vnd.apache.parquet":
            shape = parquet.shape(path)
            return None if shape is None else Size(shape[1], shape[0])
        if kind in ("text/csv", "text/tab-separated-values"):
            return _of_lines(path, "\t" if kind.endswith("values") else ",")
        with path.open("rb") as file:
            return of_picture(file.read(_HEAD_BYTES), kind)
    except (OSError, ValueError, csv.Error):
        return None


def of_picture(head: bytes, kind: str) -> Size | None:
    """From how it begins."""
    try:
        found = _sides(head, kind)
    except (struct.error, ValueError):
        return None
    return None if found is None or min(found) < 1 else Size(*found)


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
    """The first frame's header; the segments before it say how long they are."""
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


def _of_lines(path: Path, separator: str) -> Size | None:
    if path.stat().st_size > _MOST_CSV_BYTES:
        return None
    columns = rows = 0
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        for row in csv.reader(file, delimiter=separator):
            rows += 1
            columns = columns or len(row)
    return Size(columns, rows) if rows else None
