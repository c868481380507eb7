"""How large pictures and tables are, from real ones, and nothing from what only looks like one."""

import base64
import struct
import zlib
from pathlib import Path

import pytest

from potluck.local.media_size import MediaSize, measure_media, media_type

# One column of three numbers, as Apache Arrow wrote it.
PARQUET = base64.b64decode(
    "UEFSMRUEFTAVMEwVBhUAEgAAAQAAAAAAAAACAAAAAAAAAAMAAAAAAAAAFQAVFBUULBUGFRAVBhUGHAAAAAIAAAAGAQIDJAAV"
    "BBksNQAYBnNjaGVtYRUCABUEJQIYAWEAFgYZHBkcJgAcFQQZNQAGEBkYAWEVABYGFoYBFoYBJlQmCCksFQQVABUCABUAFRAV"
    "AgA8KQYZJgAGAAAAFoYBFgYmCBaGAQAoIHBhcnF1ZXQtY3BwLWFycm93IHZlcnNpb24gMjYuMC4xGRwcAAAAiAAAAFBBUjE="
)


def png(width: int, height: int) -> bytes:
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunk = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header
    return chunk + struct.pack(">I", zlib.crc32(header))


def jpeg(width: int, height: int) -> bytes:
    """With notes of a camera before its size, and tables that only look like a frame."""
    notes = b"\xff\xe1" + struct.pack(">H", 2 + 1000) + bytes(1000)
    tables = b"\xff\xc4" + struct.pack(">H", 2 + 4) + bytes(4)
    frame = b"\xff\xc2" + struct.pack(">HBHHB", 8, 8, height, width, 1)
    return b"\xff\xd8" + notes + tables + frame


SVG = b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg" %s><rect width="1"/></svg>'
REAL = [
    ("a.png", png(640, 480), MediaSize(640, 480)),
    ("A.JPG", jpeg(300, 200), MediaSize(300, 200)),
    ("a.gif", b"GIF89a" + struct.pack("<HH", 7, 9), MediaSize(7, 9)),
    ("a.svg", SVG % b'width="120px" height="80.4"', MediaSize(120, 80)),
    ("b.svg", SVG % b'viewBox="0 0 24,48"', MediaSize(24, 48)),
    ("t.csv", b'name,score\n"a,\nb",1\nc,2\n', MediaSize(2, 3)),
    ("t.tsv", b"a\tb\tc\n", MediaSize(3, 1)),
    ("t.parquet", PARQUET, MediaSize(1, 3)),
]
NONE = [
    ("a.png", b"GIF89a" + bytes(100)),
    ("a.png", b"\x89PNG\r\n\x1a\n"),
    ("a.png", png(0, 5)),
    ("a.jpg", b"\xff\xd8\xff\xe0\x00"),
    ("a.jpg", b"\xff\xd8" + b"\xff\xe1\x00\x00" * 20),
    ("a.svg", SVG % b'viewBox="0 0 x 1"'),
    ("a.svg", SVG % b'viewBox="1 2"'),
    ("a.svg", SVG % b'width="50%"'),
    ("t.csv", b""),
    ("t.csv", b"a" * 200_000),
    ("t.parquet", PARQUET[:-1]),
    ("t.parquet", b"PAR1" + b"\xff" * 20 + struct.pack("<I", 20) + b"PAR1"),
    ("t.parquet", b"PAR1" + b"\x1c" * 100 + struct.pack("<I", 100) + b"PAR1"),
    ("t.parquet", b"PAR1" + struct.pack("<I", 2**31) + b"PAR1"),
    ("t.parquet", b""),
    ("a.txt", b"width"),
]


@pytest.mark.parametrize(("name", "data", "size"), REAL, ids=[case[0] for case in REAL])
def test_media_sizes_are_measured(name: str, data: bytes, size: MediaSize, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    assert measure_media(tmp_path / name) == size


@pytest.mark.parametrize(("name", "data"), NONE)
def test_files_that_are_not_media_have_no_size(name: str, data: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    assert measure_media(tmp_path / name) is None


def test_missing_files_have_no_size(tmp_path: Path) -> None:
    assert measure_media(tmp_path / "a.png") is None and measure_media(tmp_path / "t.csv") is None


def test_every_cut_of_a_real_footer_is_survived(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    for place in range(len(PARQUET) - 140, len(PARQUET) - 8):
        path.write_bytes(PARQUET[:place] + b"\xff" + PARQUET[place + 1 :])
        measure_media(path)


def test_kinds_are_known_by_name() -> None:
    kinds = {"x/a.PNG": "image/png", "t.parquet": "application/vnd.apache.parquet", "no": None}
    for name, kind in kinds.items():
        assert media_type(name) == (kind or "application/octet-stream")
