"""One process at a time, and the others wait for their turn.

The lock is the operating system's, so it ends with the process, however that ends.
"""

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


def take(descriptor: int) -> bool:
    """Whether the open file is ours now; another process may hold it. Never waits."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # the latter is how Windows says it
        return False
    return True


_PAUSE_SECONDS = 0.02


@contextmanager
def turn(lock: Path, patience_seconds: float = 60.0) -> Iterator[None]:
    """Makes the lock's directory, for its owner's eyes only, and holds the lock inside."""
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
                f"Another process holds {lock} and does not let go.", "See what it waits for."
            )
        time.sleep(_PAUSE_SECONDS)


def _take(descriptor: int, lock: Path) -> bool:
    try:
        return take(descriptor)
    except OSError as error:
        raise _unusable(lock, error) from error


def _unusable(lock: Path, error: OSError) -> BadSettings:
    return BadSettings(
        f"{lock} can not be made or held: {error.strerror}.",
        "Make its directory writable, or name another with POTLUCK_CONFIG_DIR.",
    )
