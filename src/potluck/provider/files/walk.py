"""Goes through a directory that somebody else has filled, and perhaps still does.

Every step goes through a descriptor of the directory above and no link is followed, so whatever is
moved about meanwhile, nothing outside is ever opened.
"""

import os
import stat
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct

from potluck.model.blob import is_path
from potluck.model.task import MOST_ITEMS

MOST_DEPTH = 64
_MOST_NAMES = 100_000
_NAMED, _SHOWN_CHARACTERS = 3, 100
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe would keep us waiting, a terminal would become ours.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class WalkedEntry(Struct, frozen=True):
    """A file or directory; `parent` is open until the next one is asked for."""

    path: str
    parent: int
    name: str
    status: os.stat_result

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def mark(self) -> tuple[str, int, int, int]:
        """Another one when it has changed."""
        return (self.path, self.status.st_ino, self.status.st_size, self.status.st_mtime_ns)

    def open(self) -> int:
        """For reading; raises OSError also when it is no regular file any more."""
        descriptor = os.open(self.name, _FILE, dir_fd=self.parent)
        now = os.fstat(descriptor)
        if not stat.S_ISREG(now.st_mode) or now.st_ino != self.status.st_ino:
            os.close(descriptor)
            raise FileNotFoundError(self.path)
        return descriptor


class Passed(Struct):
    """What was seen and is not taken along: how many, and the first few."""

    count: int = 0
    first: list[str] = []

    def add(self, path: str) -> None:
        self.count += 1
        if self.count <= _NAMED:
            self.first.append(path)

    def listed(self) -> str:
        """For a line of the log, whatever they are called."""
        shown = ", ".join(repr(path[:_SHOWN_CHARACTERS]) for path in self.first)
        more = self.count - len(self.first)
        return f"{shown} and {more} more" if more else shown


def walk(top: int, below: str, passed: Passed) -> Iterator[WalkedEntry]:
    """All regular files and directories in the directory `below` the open one, in order.

    Directories come before what is in them. What is neither, can not be read, or has no name that
    others could use is passed over and noted.
    """
    try:
        descriptor = os.open(below, DIRECTORY, dir_fd=top)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError:
        passed.add(below)
        return
    try:
        yield from _walk(descriptor, "", passed)
    finally:
        os.close(descriptor)


def is_empty(top: int, below: str) -> bool:
    """Whether there is nothing to go through, which costs next to nothing to ask."""
    try:
        descriptor = os.open(below, DIRECTORY, dir_fd=top)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False  # which whoever goes through it notes
    try:
        with os.scandir(descriptor) as entries:
            return next(entries, None) is None
    finally:
        os.close(descriptor)


def _walk(directory: int, above: str, passed: Passed) -> Iterator[WalkedEntry]:
    for name in _names(directory):
        path = f"{above}{name}"
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except OSError:
            continue
        is_directory = stat.S_ISDIR(status.st_mode)
        if not (is_directory or stat.S_ISREG(status.st_mode)) or not _is_sendable(path):
            passed.add(path)
            continue
        yield WalkedEntry(path, directory, name, status)
        if is_directory:
            yield from _inside(directory, name, path, passed)


def _names(directory: int) -> list[str]:
    """Not all of them where there are more than anybody can want."""
    with os.scandir(directory) as entries:
        return sorted(entry.name for entry in islice(entries, _MOST_NAMES))


def _inside(parent: int, name: str, path: str, passed: Passed) -> Iterator[WalkedEntry]:
    try:
        descriptor = os.open(name, DIRECTORY, dir_fd=parent)
    except OSError:
        passed.add(path)
        return
    try:
        yield from _walk(descriptor, f"{path}/", passed)
    finally:
        os.close(descriptor)


def _is_sendable(path: str) -> bool:
    """Also behind the number of an item, as that of an array is sent."""
    return path.count("/") < MOST_DEPTH and is_path(f"{MOST_ITEMS}/{path}")
