"""The server's directory: for its owner's eyes only, and for one server at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from potluck.model.error import BadSettings, DataDirectoryInUse


@contextmanager
def open_data_directory(directory: Path) -> Iterator[None]:
    """Held by a lock that ends with this process, however that ends."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BadSettings(
            f"The data directory {directory} can not be used: {error.strerror}.",
            "Choose one that you may write to, with --data-dir.",
        ) from error
    try:
        _take(lock, directory)
        yield
    finally:
        os.close(lock)


def _take(lock: int, directory: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise DataDirectoryInUse(
            f"Another Potluck server uses {directory}.",
            "Stop it first, or choose another directory with --data-dir.",
        ) from error


def write_private(path: Path, text: str) -> str:
    """The file's content; the first one to come writes it, whole or not at all, mode 0600."""
    if not path.exists():
        draft = path.with_name(f"{path.name}.new")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
    return path.read_text().strip()
