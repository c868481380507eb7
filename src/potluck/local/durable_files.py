"""Files that are whole or not there, and on the disk when the call returns."""

import os
import re
import secrets
import stat
from pathlib import Path


def write_all(descriptor: int, data: bytes, offset: int | None = None) -> None:
    """From the offset on, or where the file stands."""
    left, done = memoryview(data), 0
    while left:
        if offset is None:
            taken = os.write(descriptor, left)
        else:
            taken = os.pwrite(descriptor, left, offset + done)
        left, done = left[taken:], done + taken


_DRAFT_BYTES = 4
_DRAFT = re.compile(rf"[0-9a-f]{{{2 * _DRAFT_BYTES}}}")


def write_whole(path: Path, data: bytes, like: os.stat_result | None = None) -> None:
    """Readable by its owner only, or by exactly those who may read what `like` is of.

    A crash leaves the old content or the new, never a part; and perhaps a draft.
    """
    draft = draft_of(path)
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
    """A file that must not exist yet; the directory it is in is not synced."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def draft_of(path: Path) -> Path:
    """A name beside the file, for what is to take its place."""
    return path.with_name(f".{path.name}.{secrets.token_hex(_DRAFT_BYTES)}")


def remove_drafts(path: Path) -> None:
    """What crashes left of writing this file. The caller knows that nobody writes it just now."""
    beginning = f".{path.name}."
    for found in path.parent.iterdir():
        if found.name.startswith(beginning) and _DRAFT.fullmatch(found.name[len(beginning) :]):
            found.unlink(missing_ok=True)


def sync(directory: Path) -> None:
    """What was made, renamed or removed in it stays so. Windows has no such call, and no need."""
    if os.name == "nt":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
