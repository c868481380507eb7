"""What the treasury has signed, in a file of its own: a restored database cannot make it forget.

A line is on the disk before the signature leaves the process. One that a crash cut off was never
answered, and is dropped.
"""

import os
from pathlib import Path

import msgspec

from potluck.decide.payouts.treasury_rules import SignatureRecord
from potluck.local.durable_files import sync, write_all
from potluck.model.error import BadSettings


class TreasuryJournal:
    """The caller holds a lock on the directory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._records = self._load()

    @property
    def records(self) -> tuple[SignatureRecord, ...]:
        return tuple(self._records)

    def add(self, record: SignatureRecord) -> None:
        """Durable when it returns."""
        is_new = not self._path.exists()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        descriptor = os.open(self._path, flags, 0o600)
        try:
            write_all(descriptor, msgspec.json.encode(record) + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if is_new:
            sync(self._path.parent)
        self._records.append(record)

    def _load(self) -> list[SignatureRecord]:
        if not self._path.exists():
            return []
        data = self._path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            with self._path.open("r+b") as file:
                file.truncate(len(whole))
                os.fsync(file.fileno())
        try:
            return msgspec.json.Decoder(SignatureRecord).decode_lines(whole)
        except msgspec.DecodeError as error:
            raise BadSettings(
                f"{self._path} is damaged: {error}.",
                "It says what the treasury has signed. Restore it; do not delete it.",
            ) from error
