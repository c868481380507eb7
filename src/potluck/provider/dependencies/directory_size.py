"""How large a directory is that a stranger's code may be changing, and whether it is too large.

No link is followed. A directory that can not be read hides its size, so it is an error, not zero.
"""

import asyncio
import contextlib
import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from potluck.model.task import GIB, EndReason
from potluck.provider.dependencies.outcome import PrepareFailed, failed
from potluck.provider.dependencies.settings import PrepareSettings

_RESERVE_BYTES = 5 * GIB
_RESERVE_SHARE = 10


def missing_bytes(directory: Path) -> int:
    """How much must go before there is room; a tenth of the disk stays free, 5 GiB at most."""
    disk = shutil.disk_usage(directory)
    reserve_bytes = min(disk.total // _RESERVE_SHARE, _RESERVE_BYTES)
    return max(0, reserve_bytes - disk.free)


def check_room(directory: Path) -> None:
    """Raises PrepareFailed; it is not the task's fault."""
    if missing_bytes(directory):
        free_mib = shutil.disk_usage(directory).free // 2**20
        sentence = (
            f"This node has no room for dependencies: only {free_mib:,} MiB of its disk are free."
            " Try another node, or ask this one's owner to free some."
        )
        raise PrepareFailed(EndReason.SANDBOX_FAILED, sentence)


# A large environment takes long to measure; this share of the time at most goes into it.
_REST_FOR_WORK = 10


class DirectorySize(Struct, frozen=True):
    bytes: int
    files: int


def measure(directory: Path) -> DirectorySize:
    """The space on disk and the number of files and directories; raises PrepareFailed."""
    counted: set[int] = set()
    blocks = files = 0
    for _, status in entries(directory):
        files += 1
        if status.st_nlink == 1 or status.st_ino not in counted:
            blocks += status.st_blocks
        if status.st_nlink > 1:
            counted.add(status.st_ino)
    return DirectorySize(blocks * 512, files)


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


async def watch_size(directory: Path, settings: PrepareSettings) -> None:
    """Returns never; raises PrepareFailed when it is too large or the disk is almost full."""
    while True:
        started = time.monotonic()
        check_size(await asyncio.to_thread(measure, directory), settings)
        check_room(directory)
        spent_seconds = time.monotonic() - started
        await asyncio.sleep(max(settings.watch_seconds, _REST_FOR_WORK * spent_seconds))


def check_size(size: DirectorySize, settings: PrepareSettings) -> None:
    if size.bytes > settings.environment_bytes:
        limit = settings.environment_bytes
        raise failed(f"The dependencies take more than the {limit:,} bytes that this node allows.")
    if size.files > settings.environment_files:
        limit = settings.environment_files
        raise failed(f"The dependencies have more than the {limit:,} files that this node allows.")
