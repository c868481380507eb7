"""Counts the bytes that tasks moved over the network in this calendar month, by the owner's clock.

The file always has at least as many as were moved, so that a kill gives nothing back: it is written
a step ahead, and exactly when a task has ended.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from potluck.local.durable_files import write_atomically
from potluck.model.task import MIB

_STEP_BYTES = 64 * MIB


class _Counted(Struct, frozen=True):
    month: str = ""  # such as 2026-11
    moved_bytes: int = 0


class MonthlyBytes:
    def __init__(self, path: Path, now: Callable[[], datetime] = datetime.now) -> None:
        self._path = path
        self._now = now
        self._counted = self._written = _read(path)

    @property
    def moved_bytes(self) -> int:
        """In this month."""
        self._turn_page()
        return self._counted.moved_bytes

    def count(self, size_bytes: int) -> None:
        """Raises OSError if it cannot be written down."""
        self._turn_page()
        self._counted = _Counted(self._counted.month, self._counted.moved_bytes + size_bytes)
        if self._counted.moved_bytes > self._written.moved_bytes:
            self._write(_STEP_BYTES)

    def settle(self) -> None:
        """Writes the exact count. If that fails, the file has more, which is safe."""
        with suppress(OSError):
            self._write(0)

    def _turn_page(self) -> None:
        month = f"{self._now():%Y-%m}"
        if month != self._counted.month:
            self._counted, self._written = _Counted(month), _Counted()

    def _write(self, ahead_bytes: int) -> None:
        written = _Counted(self._counted.month, self._counted.moved_bytes + ahead_bytes)
        if written != self._written:
            write_atomically(self._path, msgspec.json.encode(written))
            self._written = written


def _read(path: Path) -> _Counted:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Counted)
    except (FileNotFoundError, msgspec.DecodeError):
        return _Counted()
