"""Where backups are kept: a directory with many, which share their blobs, or a file with one.

What is written counts only after `commit`, which renames it: a backup that is killed at any moment
leaves the earlier ones as they were, and the next one removes what it left.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from potluck.model.error import BadSettings, NotFound
from potluck.server.backup.encryption import (
    AesCodec,
    BackupSecret,
    Codec,
    KeyEnvelope,
    PlainCodec,
    damaged,
    make_envelope,
    open_envelope,
)
from potluck.server.backup.manifest import BlobEntry

HEADER: Final = "potluck-backup.json"
# Of a file with one backup; any other name is a directory.
SUFFIX: Final = ".potluck"


class BackupHeader(Struct, frozen=True):
    """Not encrypted: how the rest is."""

    format: int = 1
    envelope: KeyEnvelope | None = None


class BackupReader(Protocol):
    name: str

    def read(self, name: str) -> AsyncIterator[bytes]: ...


class BackupWriter(Protocol):
    """One backup that is being written."""

    scratch: Path  # a directory for temporary files, which is removed

    async def known_blobs(self) -> Mapping[str, BlobEntry]:
        """Blobs that an earlier backup has left here, which need not be written again."""
        ...

    async def write(self, name: str, size_bytes: int, pieces: AsyncIterator[bytes]) -> None: ...

    def reopen(self) -> AbstractContextManager[BackupReader]:
        """Reads what was written."""
        ...

    def commit(self) -> None:
        """From now on it is a backup, also after a power cut."""
        ...

    async def remove_older(self, keep: int) -> int:
        """After the commit: removes all backups but the newest; returns how many."""
        ...


class BackupPlace(Protocol):
    is_encrypted: bool

    def write(self, name: str) -> AbstractContextManager[BackupWriter]: ...

    def read(self, name: str | None) -> AbstractContextManager[BackupReader]:
        """The named backup, or the newest."""
        ...


def new_header(secret: BackupSecret | None) -> tuple[BackupHeader, Codec]:
    if secret is None:
        return BackupHeader(), PlainCodec()
    envelope, key = make_envelope(secret)
    return BackupHeader(envelope=envelope), AesCodec(key)


def decode_header(data: bytes) -> BackupHeader:
    try:
        return msgspec.json.decode(data, type=BackupHeader)
    except msgspec.DecodeError as error:
        raise damaged(HEADER, str(error)) from error


def open_header(header: BackupHeader, secret: BackupSecret | None) -> Codec:
    if header.envelope is None:
        if secret is not None:
            raise BadSettings(
                "The backups here are not encrypted.",
                "Encrypt to another directory, or give no passphrase and no key file.",
            )
        return PlainCodec()
    if secret is None:
        raise BadSettings(
            "The backups here are encrypted.",
            "Give the passphrase (--encrypt, or POTLUCK_BACKUP_PASSPHRASE) or --key-file FILE.",
        )
    return AesCodec(open_envelope(header.envelope, secret))


def no_backup(path: Path) -> NotFound:
    return NotFound(f"There is no backup in {path}.", "Name a directory or a file with one.")
