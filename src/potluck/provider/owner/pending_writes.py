"""What the owner wants from elsewhere and the owner's file does not say yet.

It could not be written: the file is wrong, or is not ours to write. The server has been told that
it holds, and does not say it again, so it is kept here until it is in the file.
"""

from pathlib import Path

import msgspec
import structlog

from potluck.local.durable_files import write_whole
from potluck.model.terms import TermsChange

log = structlog.get_logger()


def unwritten_file(data_directory: Path) -> Path:
    return data_directory / "unwritten.json"


def say_after(data_directory: Path, change: TermsChange) -> None:
    """The owner has said this while no provider runs: what is kept from before does not undo it."""
    unwritten = Unwritten(data_directory)
    if unwritten.changes:
        unwritten.add(change)
        unwritten.keep()


class Unwritten:
    """In the order in which it came."""

    def __init__(self, data_directory: Path) -> None:
        self._path = unwritten_file(data_directory)
        self.changes = self._kept = _load(self._path)

    def add(self, change: TermsChange) -> None:
        self.changes = (*self.changes, change)

    def written(self, change: TermsChange) -> None:
        self.changes = tuple(each for each in self.changes if each is not change)
        if self._kept:
            self.keep()

    def keep(self) -> None:
        """From now on a crash does not lose it."""
        if self.changes:
            # Root may say something, too, and the provider must be able to read it.
            before = self._path.stat() if self._path.exists() else None
            write_whole(self._path, msgspec.json.encode(self.changes), before)
        elif self._kept:
            self._path.unlink(missing_ok=True)
        self._kept = self.changes


def _load(path: Path) -> tuple[TermsChange, ...]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=tuple[TermsChange, ...])
    except FileNotFoundError:
        return ()
    except msgspec.DecodeError as error:
        log.warning("what was kept of the owner's wishes can not be read", detail=str(error))
        return ()
