"""Walks a directory that a task has filled and may still be changing.

Every step uses a descriptor of the parent directory and follows no links, so nothing outside is
ever opened, even if the task moves directories meanwhile.
"""

import os
import stat
from collections.abc import Collection, Iterator
from itertools import islice

from msgspec import Struct

from potluck.model.blob import is_path
from potluck.model.task import MOST_ITEMS

MOST_DEPTH = 64
_MOST_NAMES = 100_000
_NAMED, _SHOWN_CHARACTERS = 3, 100
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# NONBLOCK because of pipes, NOCTTY because of terminals.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class WalkedEntry(Struct, frozen=True):
    """A file or directory; `parent` stays open until the next iteration."""

    path: str
    parent: int
    name: str
    status: os.stat_result

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def mark(self) -> tuple[str, int, int, int]:
        """Differs if the file has changed."""
        return (self.path, self.status.st_ino, self.status.st_size, self.status.st_mtime_ns)

    def open(self) -> int:
        """Opens it for reading; raises OSError also if it is no longer a regular file."""
        descriptor = os.open(self.name, _FILE, dir_fd=self.parent)
        now = os.fstat(descriptor)
        if not stat.S_ISREG(now.st_mode) or now.st_ino != self.status.st_ino:
            os.close(descriptor)
            raise FileNotFoundError(self.path)
        return descriptor


class SkippedPaths(Struct):
    """Skipped paths: their number and the first few."""

    count: int = 0
    first: list[str] = []

    def add(self, path: str) -> None:
        self.count += 1
        if self.count <= _NAMED:
            self.first.append(path)

    def listed(self) -> str:
        """For a line of the log; escapes the names."""
        shown = ", ".join(repr(path[:_SHOWN_CHARACTERS]) for path in self.first)
        more = self.count - len(self.first)
        return f"{shown} and {more} more" if more else shown


def walk(
    top: int, below: str, skipped: SkippedPaths, without: Collection[str] = ()
) -> Iterator[WalkedEntry]:
    """All regular files and directories in the directory `below` the open one, in order.

    Directories come before their content. Other types, unreadable entries and unusable names are
    skipped and noted. Directories at the paths `without` are not entered.
    """
    try:
        descriptor = os.open(below, DIRECTORY, dir_fd=top)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError:
        skipped.add(below)
        return
    try:
        yield from _walk(descriptor, "", skipped, without)
    finally:
        os.close(descriptor)


def is_empty(top: int, below: str) -> bool:
    """Whether there is nothing to walk; cheap."""
    try:
        descriptor = os.open(below, DIRECTORY, dir_fd=top)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False  # `walk` notes it
    try:
        with os.scandir(descriptor) as entries:
            return next(entries, None) is None
    finally:
        os.close(descriptor)


def _walk(
    directory: int, above: str, skipped: SkippedPaths, without: Collection[str]
) -> Iterator[WalkedEntry]:
    for name in _names(directory):
        path = f"{above}{name}"
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except OSError:
            continue
        is_directory = stat.S_ISDIR(status.st_mode)
        if not (is_directory or stat.S_ISREG(status.st_mode)) or not _is_sendable(path):
            skipped.add(path)
            continue
        yield WalkedEntry(path, directory, name, status)
        if is_directory and path not in without:
            yield from _walk_into(directory, name, path, skipped, without)


def _names(directory: int) -> list[str]:
    """Sorted, at most `_MOST_NAMES`."""
    with os.scandir(directory) as entries:
        return sorted(entry.name for entry in islice(entries, _MOST_NAMES))


def _walk_into(
    parent: int, name: str, path: str, skipped: SkippedPaths, without: Collection[str]
) -> Iterator[WalkedEntry]:
    try:
        descriptor = os.open(name, DIRECTORY, dir_fd=parent)
    except OSError:
        skipped.add(path)
        return
    try:
        yield from _walk(descriptor, f"{path}/", skipped, without)
    finally:
        os.close(descriptor)


def _is_sendable(path: str) -> bool:
    """Whether the path is valid, also with an item number in front, as arrays need."""
    return path.count("/") < MOST_DEPTH and is_path(f"{MOST_ITEMS}/{path}")
