"""Files that are whole or not there, and on the disk when the call returns."""

import os
import secrets
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Readable by its owner only. A crash leaves the old content or the new, never a part."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        write_new(draft, data)
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


def sync(directory: Path) -> None:
    """What was made, renamed or removed in it stays so. Windows has no such call, and no need."""
    if os.name == "nt":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
