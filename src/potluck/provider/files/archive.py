"""Reads a tar archive by hand, and takes nothing in it on trust.

Regular files and directories only; links, devices, sparse files and whatever else tar knows are
refused, as are paths that lead elsewhere, that collide on some file system (in case or in Unicode's
normal form), or that are a file and a directory at once. All of it is looked at before anything is
written: an archive is unpacked whole, or not at all. It takes no more than a pass over the headers,
which are counted.
"""

import os
import unicodedata
from collections.abc import Iterator
from typing import BinaryIO

from msgspec import Struct

from potluck.model.blob import is_path

MOST_ENTRIES = 50_000
MOST_NAME_BYTES = 16 * 2**20  # of all paths together
MOST_DEPTH = 64
_LONGEST_NAME_BYTES = 255
_MOST_EXTENDED_BYTES = 65_536
_MOST_EXTENDED = 4  # headers for one entry
_MOST_RECORDS = 10 * MOST_ENTRIES  # in all of them together

_LENGTH_DIGITS = 8

_BLOCK = 512
_LATEST = 2**33  # no file is from after the year 2242
_REGULAR, _DIRECTORY = (b"0", b"\0"), b"5"
_EXTENDED, _EXTENDED_FOR_ALL, _LONG_NAME = b"x", b"g", b"L"
_HEARD, _SPARSE = (b"path", b"size"), b"GNU.sparse"
_KINDS = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a device",
    b"4": "a device",
    b"6": "a pipe",
    b"S": "a sparse file",
}


class BadArchive(Exception):
    """It is not unpacked; says why."""


class ArchiveEntry(Struct, frozen=True):
    path: str
    is_directory: bool
    size_bytes: int
    offset: int  # of its bytes in the archive
    is_program: bool
    modified_at: int


def read_entries(archive: BinaryIO) -> list[ArchiveEntry]:
    """Everything in it, checked."""
    names, entries = EntryNames(), []
    for entry in _entries(archive, os.fstat(archive.fileno()).st_size):
        if entry.path and names.take(entry.path, entry.is_directory):
            entries.append(entry)
        if len(entries) > MOST_ENTRIES:
            raise BadArchive(f"it has more than {MOST_ENTRIES} entries")
    return entries


def _entries(archive: BinaryIO, size_bytes: int) -> Iterator[ArchiveEntry]:
    said: dict[str, str] = {}
    ahead = 0  # of the next entry
    records = 0
    while (block := archive.read(_BLOCK)).strip(b"\0"):
        kind, size = block[156:157], _checked_size(block)
        if kind in (_EXTENDED, _EXTENDED_FOR_ALL, _LONG_NAME):
            content = _small(archive, size)
            ahead, records = ahead + 1, records + content.count(b"\n")
            if ahead > _MOST_EXTENDED or records > _MOST_RECORDS:
                raise BadArchive("it is damaged: it has too many extended headers")
            if kind == _EXTENDED:
                said |= _extended(content)
            elif kind == _LONG_NAME:
                said["path"] = _text(content.rstrip(b"\0"))
            continue
        entry = _entry(block, kind, size, said, archive.tell())
        said, ahead = {}, 0
        if entry.offset + entry.size_bytes > size_bytes:
            raise BadArchive("it is cut off")
        yield entry
        if entry.size_bytes:
            archive.seek(_padded(entry.size_bytes), os.SEEK_CUR)


def _entry(block: bytes, kind: bytes, size: int, said: dict[str, str], offset: int) -> ArchiveEntry:
    path = said.get("path") or _header_path(block)
    if kind not in (*_REGULAR, _DIRECTORY) or any(key.startswith("GNU.") for key in said):
        what = _KINDS.get(kind, "something that is no file")
        raise BadArchive(f"{_shown(path)} is {what}; files and directories only are unpacked")
    is_directory = kind == _DIRECTORY or path.endswith("/")
    if "size" in said:
        size = _number(said["size"])
    return ArchiveEntry(
        _plain(path),
        is_directory,
        0 if is_directory else size,
        offset,
        bool(_octal(block[100:108]) & 0o100),
        min(_octal(block[136:148]), _LATEST),
    )


def _checked_size(block: bytes) -> int:
    if len(block) < _BLOCK or _octal(block[148:156]) != _sum(block):
        raise BadArchive("it is no tar archive, or damaged")
    return _octal(block[124:136])


def _sum(block: bytes) -> int:
    """Of all bytes of a header, as if its own field were blank."""
    return sum(block) - sum(block[148:156]) + 8 * ord(" ")


def _octal(field: bytes) -> int:
    """Octal digits; or binary, marked by its first bit, where those would not do."""
    if field[0] == 0x80:
        number = int.from_bytes(field[1:])
    else:
        digits = _terminated(field).strip() or b"0"
        if digits.strip(b"01234567"):
            raise BadArchive("it is no tar archive, or damaged")
        number = int(digits, 8)
    if number >= 2**62:
        raise BadArchive("it is damaged: a number in it is impossible")
    return number


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise BadArchive("it is damaged: a number in it is impossible")
    return int(text)


def _small(archive: BinaryIO, size: int) -> bytes:
    if size > _MOST_EXTENDED_BYTES:
        raise BadArchive("it is damaged: an extended header is too large")
    content = archive.read(_padded(size))
    if len(content) < size:
        raise BadArchive("it is cut off")
    return content[:size]


def _extended(content: bytes) -> dict[str, str]:
    """Records such as `18 path=some/where\\n`, each with its own length in front."""
    said, start = {}, 0
    while start < len(content):
        blank = content.find(b" ", start, start + _LENGTH_DIGITS + 1)
        end = start + _number(_text(content[start:blank])) if blank > 0 else 0
        keyword, equals, value = content[blank + 1 : end].partition(b"=")
        if not equals or not value.endswith(b"\n") or end > len(content):
            raise BadArchive("it is damaged: an extended header can not be read")
        if keyword in _HEARD or keyword.startswith(_SPARSE):  # nothing else is kept
            said[_text(keyword)] = _text(value[:-1])
        start = end
    return said


def _header_path(block: bytes) -> str:
    name, prefix = _terminated(block[:100]), _terminated(block[345:500])
    is_ustar = block[257:263] == b"ustar\0"
    return _text(prefix + b"/" + name if is_ustar and prefix else name)


def _terminated(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadArchive("it has a name that is no UTF-8") from error


def _plain(path: str) -> str:
    """As it is written here; empty for the directory that all is put into."""
    while path.startswith("./"):
        path = path[2:].lstrip("/")
    path = path.rstrip("/") if path.strip("/") else path
    if path in ("", "."):
        return ""
    if not is_path(path):
        raise BadArchive(f"{_shown(path)} is no path that it may be unpacked to")
    return path


def _shown(path: str) -> str:
    return repr(path[:100])


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


class EntryNames:
    """All that will be there, directories above included, as the pickiest file system sees it.

    Whoever packs asks it too: what is refused here would be of no use to whoever unpacks.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, bool]] = {}  # by key: its path, and whether a directory
        self._complete = {""}  # directories that are known, with all above them
        self._bytes = 0

    def take(self, path: str, is_directory: bool) -> bool:
        """Whether it is something new."""
        self._count(path)
        above = path.rpartition("/")[0]
        if above not in self._complete:
            parts = above.split("/")
            for end in range(1, len(parts) + 1):
                self._put("/".join(parts[:end]), is_directory=True)
            self._complete.add(above)
        return self._put(path, is_directory)

    def _count(self, path: str) -> None:
        self._bytes += len(path)
        if path.count("/") >= MOST_DEPTH or self._bytes > MOST_NAME_BYTES:
            raise BadArchive("its paths are too deep or too long")
        if len(self._known) > MOST_ENTRIES:
            raise BadArchive(f"it has more than {MOST_ENTRIES} entries")
        if any(len(part) > _LONGEST_NAME_BYTES for part in _parts_of_long(path.encode())):
            raise BadArchive(f"{_shown(path)} has a name that is too long")

    def _put(self, path: str, is_directory: bool) -> bool:
        key = _key(path)
        known = self._known.get(key)
        if known is None:
            self._known[key] = (path, is_directory)
            return True
        if known[0] != path:
            raise BadArchive(f"{_shown(path)} and {_shown(known[0])} would be one on some systems")
        if known != (path, True) or not is_directory:
            raise BadArchive(f"{_shown(path)} is there twice")
        return False


def _parts_of_long(path: bytes) -> list[bytes]:
    return path.split(b"/") if len(path) > _LONGEST_NAME_BYTES else []


def _key(path: str) -> str:
    """The same for all paths that a file system might take for one."""
    if path.isascii():
        return path.lower()
    folded = unicodedata.normalize("NFD", path).casefold()
    return unicodedata.normalize("NFD", folded)
