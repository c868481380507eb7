"""Files with secrets, which other users of the machine must not read."""

import sys
from contextlib import suppress
from pathlib import Path

from potluck.model.error import BadSettings


def check_private(path: Path, group_may: bool = False) -> None:
    """Refuses a user's file that others can read; `group_may` allows its group."""
    if _is_open(path, 0o007 if group_may else 0o077):
        raise BadSettings(f"Others on this machine can read {path}.", f"First: chmod 600 {path}")


def keep_private(path: Path) -> None:
    """Removes the permissions of others from a file of our own."""
    with suppress(OSError):
        if _is_open(path, 0o077):
            path.chmod(0o600)


def _is_open(path: Path, mode: int) -> bool:
    return sys.platform != "win32" and bool(path.stat().st_mode & mode)
