"""Remote changes of the owner that are not in the owner's file yet.

They could not be written: the file is invalid or not writable. The server knows that they are in
effect and does not repeat them, so they are kept here until they are in the file.
"""

from pathlib import Path

import msgspec
import structlog

from potluck.local.durable_files import write_atomically
from potluck.model.terms import TermsChange

log = structlog.get_logger()


def pending_writes_file(data_directory: Path) -> Path:
    return data_directory / "unwritten.json"


def append_if_pending(data_directory: Path, change: TermsChange) -> None:
    """Records a change made while no provider runs, so that older pending ones do not undo it."""
    unwritten = PendingWrites(data_directory)
    if unwritten.changes:
        unwritten.add(change)
        unwritten.keep()


class PendingWrites:
    """Pending changes, oldest first."""

    def __init__(self, data_directory: Path) -> None:
        self._path = pending_writes_file(data_directory)
        self.changes = self._kept = _load(self._path)

    def add(self, change: TermsChange) -> None:
        self.changes = (*self.changes, change)

    def written(self, change: TermsChange) -> None:
        self.changes = tuple(pending for pending in self.changes if pending is not change)
        if self._kept:
            self.keep()

    def keep(self) -> None:
        """Makes the pending changes durable."""
        if self.changes:
            # Keeps the file's owner: root may write it, and the provider must be able to read it.
            before = self._path.stat() if self._path.exists() else None
            write_atomically(self._path, msgspec.json.encode(self.changes), before)
        elif self._kept:
            self._path.unlink(missing_ok=True)
        self._kept = self.changes


def _load(path: Path) -> tuple[TermsChange, ...]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=tuple[TermsChange, ...])
    except FileNotFoundError:
        return ()
    except msgspec.DecodeError as error:
        log.warning("pending owner changes cannot be read", detail=str(error))
        return ()
