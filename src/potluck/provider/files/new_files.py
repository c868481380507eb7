"""What a task makes or changes in its working directory, besides its output directory.

Files that match a pattern of the task are kept as outputs. The others are lost with the directory,
and a sentence for the task's owner says so. The number of entries that are looked at is bounded.
"""

import os
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import islice

from potluck.model.units import show_bytes, show_count
from potluck.provider.files.walk import SkippedPaths, WalkedEntry, walk
from potluck.provider.sandbox.driver import WorkDirectory

_MOST_ENTRIES = 200_000
_MOST_DIRECTORIES = 10_000  # whose matches are remembered
# Made by every Python program, or meant to be out of sight.
_UNIMPORTANT = re.compile(r"(^|/)(\.|__pycache__(/|$))")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_ANY_DEPTH = "**"

_Progress = frozenset[tuple[int, int]]  # pattern, and how many of its parts have matched


class KeepPatterns:
    """Matches paths with glob patterns: `**` is any number of directories, and what is below
    a match matches too. As in a shell, a wildcard does not match hidden names. The time for a path
    does not depend on how the patterns could match.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = [
            tuple(part for part in pattern.split("/") if part not in ("", "."))
            for pattern in patterns
        ]
        begun = frozenset((number, 0) for number in range(len(self._patterns)))
        self._directories = {"": self._skip_any_depth(begun)}

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def matches(self, path: str) -> bool:
        return any(at == len(self._patterns[number]) for number, at in self._progress(path))

    def _progress(self, path: str) -> _Progress:
        above, _, name = path.rpartition("/")
        if above not in self._directories:
            if len(self._directories) > _MOST_DIRECTORIES:
                self._directories = {"": self._directories[""]}
            self._directories[above] = self._progress(above)
        return self._step(self._directories[above], name)

    def _step(self, progress: _Progress, name: str) -> _Progress:
        after = set()
        is_hidden = _UNIMPORTANT.match(name) is not None
        for number, at in progress:
            parts = self._patterns[number]
            part = parts[at] if at < len(parts) else _ANY_DEPTH
            if is_hidden and not part.startswith(name[0]):
                continue
            if part == _ANY_DEPTH:
                after.add((number, at))
                if at == len(parts) - 1:
                    after.add((number, at + 1))
            elif fnmatchcase(name, part):
                after.add((number, at + 1))
        return self._skip_any_depth(frozenset(after))

    def _skip_any_depth(self, progress: _Progress) -> _Progress:
        """`**` may stand for no directory."""
        more = set(progress)
        for number, at in progress:
            parts = self._patterns[number]
            while at < len(parts) - 1 and parts[at] == _ANY_DEPTH:
                at += 1
                more.add((number, at))
        return frozenset(more)


class _UnmatchedPaths(SkippedPaths):
    """Notes no path: most are no concern of the patterns."""

    def add(self, path: str) -> None:
        pass


class NewFiles:
    """The new files of one work directory."""

    def __init__(self, patterns: Iterable[str], without: Iterable[str]) -> None:
        self.patterns = KeepPatterns(patterns)
        self._without = frozenset(without)  # directories at the top, and files
        self._before: set[int] = set()
        self._device = 0
        self._lost = SkippedPaths()
        self._lost_bytes = 0
        self._lost_tops: set[str] = set()

    def note(self, work: WorkDirectory) -> None:
        """Before the task starts: these files are not new."""
        self._device = os.fstat(work.descriptor).st_dev
        self._before = {_mark(entry) for entry in self._entries(work)}

    def kept(self, work: WorkDirectory) -> Iterator[WalkedEntry]:
        """New files that match a pattern; counts the others."""
        for entry in self._entries(work):
            if entry.is_directory or _mark(entry) in self._before:
                continue
            if self.patterns.matches(entry.path):
                yield entry
            elif not _UNIMPORTANT.search(entry.path):
                self._lost.add(entry.path)
                self._lost_bytes += entry.status.st_size
                top, slash, _ = entry.path.partition("/")
                self._lost_tops.add(f"{top}/{_ANY_DEPTH}" if slash else top)

    def describe_lost(self, whose: str = "") -> str:
        """A sentence about the files that are not kept; empty if there are none."""
        if not self._lost.count:
            return ""
        count, size = show_count(self._lost.count, "new file"), show_bytes(self._lost_bytes)
        verb = "was" if self._lost.count == 1 else "were"
        return (
            f"{count}{whose}, {size}, {verb} not kept: {self._lost.listed()};"
            f" write to $POTLUCK_OUTPUT or use --keep '{self._suggestion()}'"
        )

    def _suggestion(self) -> str:
        """A pattern that can be typed as it is: names are the task's."""
        (top, *others) = self._lost_tops
        is_plain = not others and _PLAIN_NAME.fullmatch(top.removesuffix(f"/{_ANY_DEPTH}"))
        return top if is_plain else _ANY_DEPTH

    def _entries(self, work: WorkDirectory) -> Iterator[WalkedEntry]:
        """Without what is mounted there: those files are inputs."""
        entries = walk(work.descriptor, ".", _UnmatchedPaths(), self._without)
        for entry in islice(entries, _MOST_ENTRIES):
            if entry.status.st_dev == self._device and entry.path not in self._without:
                yield entry


def _mark(entry: WalkedEntry) -> int:
    """Differs if the file has changed. A program can set the other times, but not this one."""
    status = entry.status
    return hash((entry.path, status.st_ino, status.st_size, status.st_ctime_ns))
