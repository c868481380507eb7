"""Measures a directory that untrusted code may be changing, and checks it against the limits.

Follows no links. A directory that cannot be read is an error, since it hides its size. Also checks
that the disk has enough free space.
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
from potluck.provider.dependencies.outcome import PrepareFailed, prepare_failed
from potluck.provider.dependencies.settings import PrepareSettings

_RESERVE_BYTES = 5 * GIB
_RESERVE_SHARE = 10


def missing_bytes(directory: Path) -> int:
    """Bytes to free until a tenth of the disk, at most 5 GiB, is free."""
    disk = shutil.disk_usage(directory)
    reserve_bytes = min(disk.total // _RESERVE_SHARE, _RESERVE_BYTES)
    return max(0, reserve_bytes - disk.free)


def check_room(directory: Path) -> None:
    """Raises PrepareFailed with a reason that does not blame the task."""
    if missing_bytes(directory):
        free_mib = shutil.disk_usage(directory).free // 2**20
        sentence = (
            f"This node has no room for dependencies: its disk has only {free_mib:,} MiB free."
            " Try another node, or ask its owner to free disk space."
        )
        raise PrepareFailed(EndReason.SANDBOX_FAILED, sentence)


# Measuring a large environment is slow; the pause between two is this many times as long.
_REST_FOR_WORK = 10


class DirectorySize(Struct, frozen=True):
    bytes: int
    files: int


def measure(directory: Path) -> DirectorySize:
    """Disk space and number of files and directories; raises PrepareFailed."""
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
    """Everything below, directories before their content; files that vanish are left out."""
    waiting = [directory]
    while waiting:
        for path, status in _children(waiting.pop()):
            yield path, status
            if stat.S_ISDIR(status.st_mode):
                waiting.append(path)


def _children(directory: Path) -> Iterator[tuple[Path, os.stat_result]]:
    try:
        # Not iterdir, which keeps the whole listing in memory.
        with os.scandir(directory) as listing:
            for entry in listing:
                with contextlib.suppress(FileNotFoundError):
                    yield Path(entry.path), entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return
    except OSError as error:
        raise prepare_failed(f"The environment cannot be inspected: {error.strerror}.") from error


async def watch_size(directory: Path, settings: PrepareSettings) -> None:
    """Never returns; raises PrepareFailed when it is too large or the disk is almost full."""
    while True:
        started = time.monotonic()
        check_size(await asyncio.to_thread(measure, directory), settings)
        check_room(directory)
        spent_seconds = time.monotonic() - started
        await asyncio.sleep(max(settings.watch_seconds, _REST_FOR_WORK * spent_seconds))


def check_size(size: DirectorySize, settings: PrepareSettings) -> None:
    if size.bytes > settings.environment_bytes:
        limit = settings.environment_bytes
        raise prepare_failed(
            f"The dependencies need more than the {limit:,} bytes that this node allows."
        )
    if size.files > settings.environment_files:
        limit = settings.environment_files
        raise prepare_failed(
            f"The dependencies have more than the {limit:,} files that this node allows."
        )
