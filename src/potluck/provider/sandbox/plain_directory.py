"""A work directory on the host, for runs without a file system of their own.

A task may shape it against us: nested deeper than a path can be long, unreadable, or full of empty
files. So nothing here follows links or recurses, and unreadable directories count as too large.
"""

import math
import os
import secrets
import sys
import time
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

from potluck.local.detached_thread import run_in_daemon_thread

_BLOCK_BYTES = 512
NAME_BYTES = 1024  # the kernel's own memory for a tmpfs file, besides its content
_QUICK_SECONDS = 0.01
_LONGEST_PATH = 3_000  # of the 4,096 characters that the kernel accepts


class DirectoryGauge:
    """Tells whether a directory is over its limit.

    A large directory is measured in a thread, and the last result is returned meanwhile, so that
    callers never wait.
    """

    def __init__(self, directory: Path, limit_bytes: int) -> None:
        self._directory = directory
        self._limit_bytes = limit_bytes
        self.measured_bytes = 0
        self._measure_seconds = math.inf  # a folder may have been unpacked there
        self._measuring: Future[None] | None = None

    def is_full(self) -> bool:
        if self._measuring is None or self._measuring.done():
            if self._measure_seconds < _QUICK_SECONDS:
                self.measure()
            else:
                self._measuring = run_in_daemon_thread(self.measure)
        return self.measured_bytes > self._limit_bytes

    def measure(self) -> None:
        began = time.monotonic()
        self.measured_bytes = directory_bytes(self._directory)
        self._measure_seconds = time.monotonic() - began


def directory_bytes(directory: Path) -> int:
    """Disk space including names; files that vanish meanwhile are not counted."""
    total, waiting = 0, [str(directory)]
    while waiting:
        path = waiting.pop()
        if len(path) > _LONGEST_PATH:
            return sys.maxsize
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    total += _entry_bytes(entry)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except PermissionError:
            return sys.maxsize
        except OSError:
            continue
    return total


def used_bytes(descriptor: int) -> int:
    """Of the file system that the descriptor is in."""
    space = os.fstatvfs(descriptor)
    return (space.f_blocks - space.f_bfree) * space.f_frsize


def is_full(descriptor: int, limit_bytes: int | None = None) -> bool:
    """Whether a file system of its own has no room left; by default its size is the limit.

    Also true for too many files: the kernel's memory for each name is not accounted.
    """
    space = os.fstatvfs(descriptor)
    limit = space.f_blocks * space.f_frsize if limit_bytes is None else limit_bytes
    names = space.f_files - space.f_ffree
    has_no_room = space.f_bavail == 0 or (space.f_files > 0 and space.f_ffree == 0)
    return has_no_room or names * NAME_BYTES > limit or used_bytes(descriptor) > limit


def remove_tree(directory: Path) -> None:
    """Removes a tree in which nothing runs.

    Each directory is moved to the top before it is emptied, so that no path becomes too long.
    """
    waiting = [directory]
    while waiting:
        current = waiting.pop()
        with suppress(OSError):
            current.chmod(0o700)
            with os.scandir(current) as entries:
                children = list(entries)
            for entry in children:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(_move_to(directory, Path(entry.path)))
                else:
                    _unlink(entry.path)
            if current != directory:
                current.rmdir()
    with suppress(OSError):
        directory.rmdir()


def _entry_bytes(entry: "os.DirEntry[str]") -> int:
    with suppress(FileNotFoundError):
        status = entry.stat(follow_symlinks=False)
        blocks = getattr(status, "st_blocks", -(-status.st_size // _BLOCK_BYTES))
        return max(int(blocks) * _BLOCK_BYTES, NAME_BYTES)
    return 0


def _unlink(path: str) -> None:
    with suppress(OSError):
        Path(path).unlink()


def _move_to(top: Path, path: Path) -> Path:
    """Returns the new path, or the old one if it cannot be moved."""
    with suppress(OSError):
        path.chmod(0o700)
        return path.rename(top / secrets.token_hex(16))
    return path
