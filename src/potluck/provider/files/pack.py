"""Packs a directory that a task has filled into an archive for `unpack`."""

import os
import tarfile
from collections.abc import Iterator

from potluck.provider.files.walk import SkippedPaths, WalkedEntry, walk

_CHUNK_BYTES = 2**20
_BLOCK = 512
_END = bytes(2 * _BLOCK)


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
