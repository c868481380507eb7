"""Atomic file writes that are on the disk when the call returns, and files that hold secrets."""

import os
import re
import secrets
import stat
import sys
from contextlib import suppress
from pathlib import Path

from potluck.model.error import BadSettings

_DRAFT_BYTES = 4
_DRAFT = re.compile(rf"[0-9a-f]{{{2 * _DRAFT_BYTES}}}")


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


def write_all(descriptor: int, data: bytes, offset: int | None = None) -> None:
    """Writes all bytes at the offset or the file's position. A nearly full disk takes only a part
    of them and fails at the next write."""
    left, done = memoryview(data), 0
    while left:
        if offset is None:
            taken = os.write(descriptor, left)
        else:
            taken = os.pwrite(descriptor, left, offset + done)
        left, done = left[taken:], done + taken


def write_atomically(path: Path, data: bytes, like: os.stat_result | None = None) -> None:
    """Replaces the file's content, with mode 0600 or with the owner and mode of `like`.

    A crash leaves the old content or the new, and perhaps a draft.
    """
    draft = draft_path(path)
    try:
        write_new(draft, data)
        if like is not None and os.name != "nt":
            os.chown(draft, like.st_uid, like.st_gid)
            draft.chmod(stat.S_IMODE(like.st_mode))
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync(path.parent)


def write_new(path: Path, data: bytes) -> None:
    """Writes a file that must not exist yet; does not sync its directory."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def draft_path(path: Path) -> Path:
    """A path beside the file for its next content."""
    return path.with_name(f".{path.name}.{secrets.token_hex(_DRAFT_BYTES)}")


def remove_drafts(path: Path) -> None:
    """Removes drafts that crashes left. The caller ensures that nothing writes the file now."""
    prefix = f".{path.name}."
    for file in path.parent.iterdir():
        if file.name.startswith(prefix) and _DRAFT.fullmatch(file.name[len(prefix) :]):
            file.unlink(missing_ok=True)


def sync(directory: Path) -> None:
    """Makes changes of directory entries durable. Windows neither has nor needs this."""
    if os.name == "nt":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
