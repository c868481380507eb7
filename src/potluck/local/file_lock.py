"""Locks between processes. The operating system releases them when a process ends in any way."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from potluck.model.error import BadSettings

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


def try_lock(descriptor: int) -> bool:
    """Tries to lock the open file; false if another process holds it. Never waits."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # the latter on Windows
        return False
    return True


_PAUSE_SECONDS = 0.02


@contextmanager
def hold_lock(lock: Path, patience_seconds: float = 60.0) -> Iterator[None]:
    """Holds the lock, after waiting for it; creates its directory with mode 0700."""
    try:
        lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _unusable(lock, error) from error
    try:
        _wait(descriptor, lock, time.monotonic() + patience_seconds)
        yield
    finally:
        os.close(descriptor)


def _wait(descriptor: int, lock: Path, deadline: float) -> None:
    while not _take(descriptor, lock):
        if time.monotonic() > deadline:
            raise BadSettings(
                f"Another process still holds {lock}.", "Check what that process is waiting for."
            )
        time.sleep(_PAUSE_SECONDS)


def _take(descriptor: int, lock: Path) -> bool:
    try:
        return try_lock(descriptor)
    except OSError as error:
        raise _unusable(lock, error) from error


def _unusable(lock: Path, error: OSError) -> BadSettings:
    return BadSettings(
        f"{lock} cannot be created or locked: {error.strerror}.",
        "Make its directory writable, or choose another with POTLUCK_CONFIG_DIR.",
    )
