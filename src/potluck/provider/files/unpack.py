"""Writes archives and files into a task's work directory, and nowhere else.

Every step uses a descriptor of the parent directory and follows no links. The files belong to the
task's user.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from potluck.local.durable_files import write_all
from potluck.model.task import MIB, EndReason
from potluck.provider.files.archive import ArchiveEntry, BadArchive, read_entries
from potluck.provider.files.walk import DIRECTORY
from potluck.provider.sandbox.driver import InputFailed, WorkDirectory

_CHUNK_BYTES = 2**20
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ANEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def unpack(archive: Path, work: WorkDirectory, room_bytes: int, below: str = "") -> None:
    """Unpacks into the directory `below` the work directory; raises InputFailed."""
    what = f"the archive of {below}" if below else "the folder"
    try:
        with archive.open("rb") as file:
            entries = read_entries(file)
            _check_room(entries, what, room_bytes)
            with opened(work, below) as top:
                _write(file, entries, top, work.uid)
    except BadArchive as error:
        raise InputFailed(f"{what} cannot be unpacked: {error}") from error
    except OSError as error:
        raise _failed(f"{what} cannot be unpacked", error, room_bytes) from error


def put_file(work: WorkDirectory, path: str, content: bytes, room_bytes: int) -> None:
    """Writes a file of the platform, replacing a file of the task."""
    above, _, name = path.rpartition("/")
    try:
        with opened(work, above) as directory:
            descriptor = os.open(name, _ANEW, 0o644, dir_fd=directory)
            with os.fdopen(descriptor, "wb") as file:
                _own(descriptor, work.uid)
                file.write(content)
    except OSError as error:
        raise _failed(f"{path} cannot be written", error, room_bytes) from error


def make_directory(work: WorkDirectory, path: str, room_bytes: int) -> None:
    """Creates the directory, or makes the task's user its owner."""
    try:
        with opened(work, path):
            pass
    except OSError as error:
        raise _failed(f"{path} cannot be a directory", error, room_bytes) from error


@contextmanager
def opened(work: WorkDirectory, path: str) -> Iterator[int]:
    """Opens a directory below the work directory; creates it and its parents if missing."""
    descriptor = os.dup(work.descriptor)
    try:
        for name in filter(None, path.split("/")):
            with suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=descriptor)
            inner = os.open(name, DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
            _own(descriptor, work.uid)
        yield descriptor
    finally:
        os.close(descriptor)


def _write(archive: BinaryIO, entries: list[ArchiveEntry], top: int, uid: int | None) -> None:
    """Keeps the current directory open: consecutive entries mostly share a directory."""
    work, current, directory = WorkDirectory(top, uid), "", os.dup(top)
    try:
        for entry in entries:
            above, name = (entry.path, "") if entry.is_directory else _split(entry.path)
            if above != current:
                with opened(work, above) as descriptor:
                    os.dup2(descriptor, directory, inheritable=False)
                current = above
            if name:
                _write_file(archive, entry, name, directory, uid)
    finally:
        os.close(directory)


def _split(path: str) -> tuple[str, str]:
    above, _, name = path.rpartition("/")
    return above, name


def _write_file(
    archive: BinaryIO, entry: ArchiveEntry, name: str, directory: int, uid: int | None
) -> None:
    descriptor = os.open(name, _NEW, 0o755 if entry.is_program else 0o644, dir_fd=directory)
    try:
        _own(descriptor, uid)
        archive.seek(entry.offset)
        left = entry.size_bytes
        while left:
            data = archive.read(min(left, _CHUNK_BYTES))
            if not data:
                raise BadArchive("it is cut off")
            write_all(descriptor, data)
            left -= len(data)
        os.utime(descriptor, (entry.modified_at, entry.modified_at))
    finally:
        os.close(descriptor)


def _own(descriptor: int, uid: int | None) -> None:
    if uid is not None:
        os.fchown(descriptor, uid, uid)


def _check_room(entries: list[ArchiveEntry], what: str, room_bytes: int) -> None:
    size_bytes = sum(entry.size_bytes for entry in entries)
    if size_bytes > room_bytes:
        raise _no_room(f"{what} takes {size_bytes / MIB:.1f} MiB", room_bytes)


def _failed(what: str, error: OSError, room_bytes: int) -> InputFailed:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _no_room(what, room_bytes)
    if error.errno in (errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EROFS):
        return InputFailed(f"{what}: two entries have the same path")
    if error.errno in (errno.ENAMETOOLONG, errno.EINVAL, errno.EOVERFLOW):
        return InputFailed(f"{what}: {os.strerror(error.errno)}")
    raise error


def _no_room(what: str, room_bytes: int) -> InputFailed:
    return InputFailed(
        f"{what}; the task has {room_bytes / MIB:.1f} MiB of disk", EndReason.DISK_LIMIT
    )
