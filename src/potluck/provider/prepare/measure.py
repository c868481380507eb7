"""How large a directory is that a stranger's code may be changing meanwhile.

No link is followed. A directory that can not be read hides its size, so it is an error, not zero.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from potluck.provider.prepare.outcome import failed


class Size(Struct, frozen=True):
    bytes: int
    files: int


def measure(directory: Path) -> Size:
    """The space on disk and the number of files and directories; raises PrepareFailed."""
    counted: set[int] = set()
    blocks = files = 0
    for _, status in entries(directory):
        files += 1
        if status.st_nlink == 1 or status.st_ino not in counted:
            blocks += status.st_blocks
        if status.st_nlink > 1:
            counted.add(status.st_ino)
    return Size(blocks * 512, files)


def entries(directory: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Everything below, a directory before its content; what vanishes meanwhile is left out."""
    waiting = [directory]
    while waiting:
        for path, status in _children(waiting.pop()):
            yield path, status
            if stat.S_ISDIR(status.st_mode):
                waiting.append(path)


def _children(directory: Path) -> Iterator[tuple[Path, os.stat_result]]:
    try:
        # Not iterdir, which keeps the whole listing, however long, in memory.
        with os.scandir(directory) as listing:
            for entry in listing:
                with contextlib.suppress(FileNotFoundError):
                    yield Path(entry.path), entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return
    except OSError as error:
        raise failed(f"The environment can not be inspected: {error.strerror}.") from error
