"""Tar archives: parses untrusted ones, and packs a directory that a task has filled.

Accepts regular files and directories only. Refuses links, devices, sparse files and other types;
paths that lead outside, that collide on some file system (by case or Unicode normalization), or
that are both a file and a directory. All headers are checked, with bounded effort, before anything
is written: an archive is unpacked completely or not at all.
"""

import os
import tarfile
import unicodedata
from collections.abc import Iterator
from typing import BinaryIO

from msgspec import Struct

from potluck.model.blob import is_path
from potluck.provider.files.walk import SkippedPaths, WalkedEntry, walk

MOST_ENTRIES = 50_000
MOST_NAME_BYTES = 16 * 2**20  # of all paths together
MOST_DEPTH = 64
_LONGEST_NAME_BYTES = 255
_MOST_EXTENDED_BYTES = 65_536
_MOST_EXTENDED = 4  # headers for one entry
_MOST_RECORDS = 10 * MOST_ENTRIES  # in all of them together
_LENGTH_DIGITS = 8
_BLOCK = 512
_END = bytes(2 * _BLOCK)
_CHUNK_BYTES = 2**20
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


class FileChanged(Exception):
    """A file changed while it was read, so the archive is unusable."""


def pack(top: int, below: str) -> Iterator[bytes]:
    """Yields the archive in pieces, without unreadable files; raises FileChanged."""
    for walked in walk(top, below, SkippedPaths()):
        if walked.is_directory:
            yield _header(walked)
        else:
            yield from _file(walked)
    yield _END


def _header(walked: WalkedEntry) -> bytes:
    entry = tarfile.TarInfo(walked.path)
    entry.mode = walked.status.st_mode & 0o777
    entry.mtime = int(walked.status.st_mtime)
    if walked.is_directory:
        entry.type = tarfile.DIRTYPE
    else:
        entry.size = walked.status.st_size
    return entry.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")


def _file(walked: WalkedEntry) -> Iterator[bytes]:
    try:
        descriptor = walked.open()
    except PermissionError:
        return
    except OSError as error:
        raise FileChanged from error
    size = 0
    try:
        yield _header(walked)
        while data := os.read(descriptor, _CHUNK_BYTES):
            size += len(data)
            if size > walked.status.st_size:
                raise FileChanged
            yield data
        now = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if (size, now.st_mtime_ns) != (walked.status.st_size, walked.status.st_mtime_ns):
        raise FileChanged
    yield bytes(-size % _BLOCK)


class BadArchive(Exception):
    """The archive is refused; the message says why."""


class ArchiveEntry(Struct, frozen=True):
    path: str
    is_directory: bool
    size_bytes: int
    offset: int  # of its bytes in the archive
    is_program: bool
    modified_at: int


def read_entries(archive: BinaryIO) -> list[ArchiveEntry]:
    """All entries, checked."""
    names, entries = EntryNames(), []
    for entry in _entries(archive, os.fstat(archive.fileno()).st_size):
        if entry.path and names.take(entry.path, entry.is_directory):
            entries.append(entry)
        if len(entries) > MOST_ENTRIES:
            raise BadArchive(f"it has more than {MOST_ENTRIES} entries")
    return entries


def _entries(archive: BinaryIO, size_bytes: int) -> Iterator[ArchiveEntry]:
    extended: dict[str, str] = {}
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
                extended |= _extended(content)
            elif kind == _LONG_NAME:
                extended["path"] = _text(content.rstrip(b"\0"))
            continue
        entry = _entry(block, kind, size, extended, archive.tell())
        extended, ahead = {}, 0
        if entry.offset + entry.size_bytes > size_bytes:
            raise BadArchive("it is cut off")
        yield entry
        if entry.size_bytes:
            archive.seek(_padded(entry.size_bytes), os.SEEK_CUR)


def _entry(
    block: bytes, kind: bytes, size: int, extended: dict[str, str], offset: int
) -> ArchiveEntry:
    path = extended.get("path") or _header_path(block)
    if kind not in (*_REGULAR, _DIRECTORY) or any(key.startswith("GNU.") for key in extended):
        what = _KINDS.get(kind, "of an unknown type")
        raise BadArchive(f"{_shown(path)} is {what}; only files and directories are unpacked")
    is_directory = kind == _DIRECTORY or path.endswith("/")
    if "size" in extended:
        size = _number(extended["size"])
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
        raise BadArchive("it is not a tar archive, or is damaged")
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
            raise BadArchive("it is not a tar archive, or is damaged")
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
    extended, start = {}, 0
    while start < len(content):
        blank = content.find(b" ", start, start + _LENGTH_DIGITS + 1)
        end = start + _number(_text(content[start:blank])) if blank > 0 else 0
        keyword, equals, value = content[blank + 1 : end].partition(b"=")
        if not equals or not value.endswith(b"\n") or end > len(content):
            raise BadArchive("it is damaged: an extended header is malformed")
        if keyword in _HEARD or keyword.startswith(_SPARSE):  # nothing else is kept
            extended[_text(keyword)] = _text(value[:-1])
        start = end
    return extended


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
        raise BadArchive("it has a name that is not UTF-8") from error


def _plain(path: str) -> str:
    """The normalized path; empty for the top directory."""
    while path.startswith("./"):
        path = path[2:].lstrip("/")
    path = path.rstrip("/") if path.strip("/") else path
    if path in ("", "."):
        return ""
    if not is_path(path):
        raise BadArchive(f"{_shown(path)} is not an allowed path")
    return path


def _shown(path: str) -> str:
    return repr(path[:100])


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


class EntryNames:
    """All paths including parent directories, as seen by the most restrictive file system.

    Also used for packing, so that no archive is made that would be refused here.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, bool]] = {}  # by key: its path, and whether a directory
        self._complete = {""}  # directories that are known, with all above them
        self._bytes = 0

    def take(self, path: str, is_directory: bool) -> bool:
        """Returns whether the path is new; raises BadArchive."""
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
            raise BadArchive(f"{_shown(path)} and {_shown(known[0])} are the same on some systems")
        if known != (path, True) or not is_directory:
            raise BadArchive(f"{_shown(path)} occurs twice")
        return False


def _parts_of_long(path: bytes) -> list[bytes]:
    return path.split(b"/") if len(path) > _LONGEST_NAME_BYTES else []


def _key(path: str) -> str:
    """Equal for all paths that some file system treats as the same."""
    if path.isascii():
        return path.lower()
    folded = unicodedata.normalize("NFD", path).casefold()
    return unicodedata.normalize("NFD", folded)
