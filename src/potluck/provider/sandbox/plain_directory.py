"""A directory of the host that a run works in, where it has no file system of its own.

Whoever works there may shape it against us: deeper than a path can say, shut, or full of names. So
nothing here follows a link or recurses, and what can not be looked at counts as too much.
"""

import math
import os
import secrets
import sys
import time
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

from potluck.local.detached_thread import in_own_thread

_BLOCK_BYTES = 512
NAME_BYTES = 1024  # what the kernel needs for a file in memory, beside its bytes
_QUICK_SECONDS = 0.01
_LONGEST_PATH = 3_000  # of the 4,096 characters that a kernel takes


class DirectoryGauge:
    """Tells again and again whether such a directory is full.

    Where there is much to look at it is looked at in a thread, and the answer is that of the last
    look: nobody else is to wait for it.
    """

    def __init__(self, directory: Path, limit_bytes: int) -> None:
        self._directory = directory
        self._limit_bytes = limit_bytes
        self._is_full = False
        self._took_seconds = math.inf  # a folder may have been unpacked there
        self._looking: Future[None] | None = None

    def is_full(self) -> bool:
        if self._looking is None or self._looking.done():
            if self._took_seconds < _QUICK_SECONDS:
                self._look()
            else:
                self._looking = in_own_thread(self._look)
        return self._is_full

    def _look(self) -> None:
        began = time.monotonic()
        self._is_full = directory_bytes(self._directory) > self._limit_bytes
        self._took_seconds = time.monotonic() - began


def directory_bytes(directory: Path) -> int:
    """What it takes on the disk, names too; what vanishes meanwhile is not counted."""
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


def remove_tree(directory: Path) -> None:
    """Nothing runs there any more.

    Each directory is moved to the top before it is emptied, so that no path becomes too long.
    """
    waiting = [directory]
    while waiting:
        current = waiting.pop()
        with suppress(OSError):
            current.chmod(0o700)
            with os.scandir(current) as entries:
                found = list(entries)
            for entry in found:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(_moved(Path(entry.path), directory))
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


def _moved(path: Path, top: Path) -> Path:
    """Where it is now; a directory can be moved by whoever may write to it."""
    with suppress(OSError):
        path.chmod(0o700)
        return path.rename(top / secrets.token_hex(16))
    return path
