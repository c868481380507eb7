"""One backup in a file: an archive in tar's format, with the manifest at its end."""

import asyncio
import io
import os
import shutil
import tarfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from potluck.local.data_directory import held
from potluck.local.durable_files import sync
from potluck.model.error import DataDirectoryInUse
from potluck.server.backup.encryption import BackupSecret, Codec, damaged
from potluck.server.backup.manifest import BlobEntry
from potluck.server.backup.pieces import pieces_of_file
from potluck.server.backup.place import (
    HEADER,
    BackupHeader,
    decode_header,
    new_header,
    no_backup,
    open_header,
)


class FileBackup:
    """Written anew each time; a backup that is there stays until the new one is complete."""

    def __init__(self, path: Path, secret: BackupSecret | None) -> None:
        self._path = path
        self._secret = secret
        self.is_encrypted = secret is not None

    @contextmanager
    def write(self, name: str) -> Iterator["ArchiveWriter"]:  # noqa: ARG002
        unfinished = self._path.with_name(f".{self._path.name}.unfinished")
        in_use = DataDirectoryInUse(
            f"Another backup to {self._path} is running.", "Wait for it, or use another name."
        )
        with held(unfinished, in_use):
            for left in unfinished.iterdir():  # by one that was killed
                if left.name != "lock":
                    shutil.rmtree(left) if left.is_dir() else left.unlink()
            header, codec = new_header(self._secret)
            try:
                yield ArchiveWriter(self._path, unfinished, header, codec)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)

    @staticmethod
    def is_encrypted_at(path: Path) -> bool:
        with _opened(path) as archive:
            return _read_header(archive).envelope is not None

    @contextmanager
    def read(self, name: str | None) -> Iterator["ArchiveReader"]:
        if name is not None:
            raise no_backup(self._path / name)
        with _opened(self._path) as archive:
            codec = open_header(_read_header(archive), self._secret)
            yield ArchiveReader(archive, codec, self._path.name)


class ArchiveReader:
    def __init__(self, archive: tarfile.TarFile, codec: Codec, name: str) -> None:
        self._archive = archive
        self._codec = codec
        self.name = name

    def read(self, name: str) -> AsyncIterator[bytes]:
        return self._codec.decode(name, pieces_of_file(_member(self._archive, name)))


class ArchiveWriter:
    def __init__(self, path: Path, unfinished: Path, header: BackupHeader, codec: Codec) -> None:
        self.scratch = unfinished / "scratch"
        self.scratch.mkdir(mode=0o700)
        self._path = path
        self._draft = unfinished / "archive"
        self._codec = codec
        self._one_at_a_time = asyncio.Lock()
        self._file = os.fdopen(
            os.open(self._draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b"
        )
        self._archive = tarfile.open(fileobj=self._file, mode="w:")  # noqa: SIM115
        data = msgspec.json.encode(header)
        self._archive.addfile(_info(HEADER, len(data)), io.BytesIO(data))

    async def known_blobs(self) -> Mapping[str, BlobEntry]:
        return {}

    async def write(self, name: str, size_bytes: int, pieces: AsyncIterator[bytes]) -> None:
        """A member that fails leaves nothing: the next one takes its place."""
        async with self._one_at_a_time:
            info = _info(name, self._codec.encoded_bytes(size_bytes))
            try:
                await self._write_member(info, self._codec.encode(name, pieces))
            except BaseException:
                self._file.seek(self._archive.offset)
                self._file.truncate()
                raise
            self._archive.offset = self._file.tell()

    async def _write_member(self, info: tarfile.TarInfo, pieces: AsyncIterator[bytes]) -> None:
        """By hand: `addfile` wants the whole content as a file."""
        self._file.write(info.tobuf(self._archive.format))
        written = 0
        async for piece in pieces:
            self._file.write(piece)
            written += len(piece)
        if written != info.size:
            raise damaged(info.name, f"it has {written} bytes instead of {info.size}")
        self._file.write(bytes(-written % tarfile.BLOCKSIZE))

    @contextmanager
    def reopen(self) -> Iterator[ArchiveReader]:
        self._file.flush()
        with tarfile.open(self._draft, "r:") as archive:
            yield ArchiveReader(archive, self._codec, self._path.name)

    async def remove_older(self, keep: int) -> int:  # noqa: ARG002
        return 0  # the file has been replaced

    def commit(self) -> None:
        self._archive.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._draft.replace(self._path)
        sync(self._path.parent)


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    if not path.is_file():
        raise no_backup(path)
    try:
        with tarfile.open(path, "r:") as archive:
            yield archive
    except tarfile.TarError as error:
        raise damaged(path.name, str(error)) from error


def _read_header(archive: tarfile.TarFile) -> BackupHeader:
    return decode_header(_member(archive, HEADER).read())


def _info(name: str, size_bytes: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size_bytes, 0o600
    return info


def _member(archive: tarfile.TarFile, name: str) -> "tarfile.ExFileObject":
    try:
        member = archive.extractfile(name)
    except KeyError:
        member = None
    if member is None:
        raise damaged(name, "it is missing")
    return member  # type: ignore[return-value]
