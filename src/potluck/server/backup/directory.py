"""Backups in a directory.

potluck-backup.json    whether they are encrypted
blobs/                 of all backups here; each is there once
backups/NAME/          one backup: its manifest, its tables, the list of its blobs
unfinished/            what is being written
"""

import asyncio
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from potluck.local.data_directory import held
from potluck.local.durable_files import sync, write_all, write_atomically
from potluck.model.error import BadSettings, DataDirectoryInUse
from potluck.server.backup.encryption import BackupSecret, Codec, damaged
from potluck.server.backup.manifest import BLOB_LIST, BlobEntry, blob_member, decode_blob_list
from potluck.server.backup.pieces import join, pieces_of_path
from potluck.server.backup.place import (
    HEADER,
    BackupHeader,
    decode_header,
    new_header,
    no_backup,
    open_header,
)

_BACKUPS = "backups"
_UNFINISHED = "unfinished"


class DirectoryBackups:
    def __init__(self, path: Path, codec: Codec, is_encrypted: bool) -> None:
        self.path = path
        self.is_encrypted = is_encrypted
        self.codec = codec

    @classmethod
    def create(cls, path: Path, secret: BackupSecret | None) -> "DirectoryBackups":
        """Opens the directory, or makes it."""
        try:
            return cls._create(path, secret)
        except OSError as error:
            raise BadSettings(
                f"The directory {path} cannot be made or read: {error.strerror}.",
                "Name one that you may write to, or a file whose name ends in .potluck.",
            ) from error

    @classmethod
    def _create(cls, path: Path, secret: BackupSecret | None) -> "DirectoryBackups":
        if (path / HEADER).exists():
            return cls.open(path, secret)
        if path.exists() and any(path.iterdir()):
            raise BadSettings(
                f"{path} has other files, and no backup.", "Name an empty directory, or a new one."
            )
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        header, codec = new_header(secret)
        write_atomically(path / HEADER, msgspec.json.encode(header))
        return cls(path, codec, secret is not None)

    @classmethod
    def open(cls, path: Path, secret: BackupSecret | None) -> "DirectoryBackups":
        header = _read_header(path)
        return cls(path, open_header(header, secret), header.envelope is not None)

    @staticmethod
    def is_encrypted_at(path: Path) -> bool:
        return _read_header(path).envelope is not None

    def names(self) -> list[str]:
        """Of the complete backups, oldest first."""
        folder = self.path / _BACKUPS
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    @contextmanager
    def write(self, name: str) -> Iterator["DirectoryWriter"]:
        in_use = DataDirectoryInUse(
            f"Another backup to {self.path} is running.", "Wait for it, or use another directory."
        )
        with held(self.path, in_use):
            unfinished = self.path / _UNFINISHED
            shutil.rmtree(unfinished, ignore_errors=True)  # of one that was killed
            (unfinished / name).mkdir(mode=0o700, parents=True)
            for folder in (_BACKUPS, "blobs"):
                (self.path / folder).mkdir(mode=0o700, exist_ok=True)
            try:
                yield DirectoryWriter(self, name)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)

    @contextmanager
    def read(self, name: str | None) -> Iterator["DirectoryReader"]:
        names = self.names()
        if not names or (name is not None and name not in names):
            raise no_backup(self.path if name is None else self.path / _BACKUPS / name)
        yield DirectoryReader(self, name or names[-1])

    async def blobs_of(self, name: str) -> list[BlobEntry]:
        return decode_blob_list(await join(DirectoryReader(self, name).read(BLOB_LIST)))

    async def remove_but(self, keep: int) -> list[str]:
        """Removes the oldest backups, and then blobs that no remaining one names."""
        names = self.names()
        removed = names[:-keep]
        for name in removed:
            # Renamed first: what is half removed is no backup.
            (self.path / _BACKUPS / name).rename(self.path / _UNFINISHED / f"removed-{name}")
        if removed:
            sync(self.path / _BACKUPS)
            needed = {blob.key for name in names[-keep:] for blob in await self.blobs_of(name)}
            self._remove_blobs(needed)
        return removed

    def _remove_blobs(self, needed: set[str]) -> None:
        root = self.path / "blobs"
        for directory, _, files in os.walk(root, topdown=False):
            for file in files:
                path = Path(directory) / file
                if path.relative_to(root).as_posix() not in needed:
                    path.unlink()
            if Path(directory) != root and not any(Path(directory).iterdir()):
                Path(directory).rmdir()


class DirectoryReader:
    def __init__(self, place: DirectoryBackups, name: str) -> None:
        self._place = place
        self.name = name

    def read(self, name: str) -> AsyncIterator[bytes]:
        path = self._place.path / self._where(name)
        return self._place.codec.decode(name, _stored(path, name))

    def _where(self, name: str) -> str:
        return name if name.startswith("blobs/") else self._own(name)

    def _own(self, name: str) -> str:
        return f"{_BACKUPS}/{self.name}/{name}"


class DirectoryWriter(DirectoryReader):
    def __init__(self, place: DirectoryBackups, name: str) -> None:
        super().__init__(place, name)
        self.scratch = place.path / _UNFINISHED / "scratch"
        self.scratch.mkdir(mode=0o700)

    def _own(self, name: str) -> str:
        return f"{_UNFINISHED}/{self.name}/{name}"

    async def known_blobs(self) -> Mapping[str, BlobEntry]:
        """Those of the newest backup."""
        names = self._place.names()
        blobs = await self._place.blobs_of(names[-1]) if names else []
        return {blob.key: blob for blob in self._there(blobs)}

    def _there(self, blobs: Iterable[BlobEntry]) -> Iterator[BlobEntry]:
        for blob in blobs:
            path = self._place.path / blob_member(blob.key)
            stored_bytes = self._place.codec.encoded_bytes(blob.size_bytes)
            if path.is_file() and path.stat().st_size == stored_bytes:
                yield blob

    async def write(
        self,
        name: str,
        size_bytes: int,  # noqa: ARG002
        pieces: AsyncIterator[bytes],
    ) -> None:
        """Synced and renamed, so that a blob here is always complete."""
        path = self._place.path / self._where(name)
        draft = self.scratch / secrets.token_hex(8)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            async for piece in self._place.codec.encode(name, pieces):
                write_all(descriptor, piece)
            await asyncio.to_thread(_publish, descriptor, draft, path)
        finally:
            os.close(descriptor)

    @contextmanager
    def reopen(self) -> Iterator[DirectoryReader]:
        yield self

    async def remove_older(self, keep: int) -> int:
        return len(await self._place.remove_but(keep))

    def commit(self) -> None:
        own = self._place.path / self._own("")
        for directory, _, _ in os.walk(own):
            sync(Path(directory))
        own.rename(self._place.path / _BACKUPS / self.name)
        sync(self._place.path / _BACKUPS)


def _read_header(path: Path) -> BackupHeader:
    if not (path / HEADER).exists():
        raise no_backup(path)
    return decode_header((path / HEADER).read_bytes())


def _publish(descriptor: int, draft: Path, path: Path) -> None:
    os.fsync(descriptor)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft.replace(path)
    sync(path.parent)


async def _stored(path: Path, name: str) -> AsyncIterator[bytes]:
    try:
        async for piece in pieces_of_path(path):
            yield piece
    except FileNotFoundError as error:
        raise damaged(name, "it is missing") from error
