"""Makes an archive of a directory that a task has filled, as `unpack` takes it."""

import os
import tarfile
from collections.abc import Iterator

from potluck.provider.files.walk import Passed, WalkedEntry, walk

_CHUNK_BYTES = 2**20
_BLOCK = 512
_END = bytes(2 * _BLOCK)


class FileChanged(Exception):
    """A file changed while it was read: what was packed is of no use."""


def pack(top: int, below: str) -> Iterator[bytes]:
    """The archive, piece by piece, without what can not be read. Raises Moved where somebody still
    writes."""
    for found in walk(top, below, Passed()):
        if found.is_directory:
            yield _header(found)
        else:
            yield from _file(found)
    yield _END


def _header(found: WalkedEntry) -> bytes:
    entry = tarfile.TarInfo(found.path)
    entry.mode = found.status.st_mode & 0o777
    entry.mtime = int(found.status.st_mtime)
    if found.is_directory:
        entry.type = tarfile.DIRTYPE
    else:
        entry.size = found.status.st_size
    return entry.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")


def _file(found: WalkedEntry) -> Iterator[bytes]:
    try:
        descriptor = found.open()
    except PermissionError:
        return
    except OSError as error:
        raise FileChanged from error
    size = 0
    try:
        yield _header(found)
        while data := os.read(descriptor, _CHUNK_BYTES):
            size += len(data)
            if size > found.status.st_size:
                raise FileChanged
            yield data
        now = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if (size, now.st_mtime_ns) != (found.status.st_size, found.status.st_mtime_ns):
        raise FileChanged
    yield bytes(-size % _BLOCK)
