"""Builds the tree of one version of a volume from local and remote chunks.

Files are written in the order of the manifest, which is mostly that of the packs: neighbouring
chunks come with one request. Every chunk is verified before it is written.
"""

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import NamedTuple

from potluck.local.durable_files import write_all
from potluck.local.shielded import finish_despite_cancel
from potluck.model.blob import BlobRef
from potluck.model.error import PotluckError
from potluck.provider.files.blob_transfer import REFUSALS, BlobDamaged, BlobTransfer
from potluck.wire.volumes import VolumeChunk, VolumeFile, VolumeManifest

_WRONG_TRIES = 3
_FILE_MODE, _PROGRAM_MODE, _DIRECTORY_MODE = 0o444, 0o555, 0o755


class ChunkPlace(NamedTuple):
    file: Path
    offset: int
    size_bytes: int


class LocalChunks:
    """Chunks and files that are on this node already."""

    def __init__(self) -> None:
        self.places: dict[bytes, ChunkPlace] = {}
        self.files: dict[tuple[bool, tuple[bytes, ...]], Path] = {}

    def add(self, tree: Path, manifest: VolumeManifest) -> None:
        for file in manifest.files:
            path, offset = tree / file.path, 0
            self.files.setdefault(_content(file), path)
            for chunk in file.chunks:
                self.places.setdefault(chunk.sha256, ChunkPlace(path, offset, chunk.size_bytes))
                offset += chunk.size_bytes

    def read(self, chunk: VolumeChunk) -> bytes | None:
        """The chunk, if it is here and right."""
        place = self.places.get(chunk.sha256)
        if place is None:
            return None
        try:
            with place.file.open("rb") as file:
                file.seek(place.offset)
                data = file.read(place.size_bytes)
        except OSError:
            return None
        return data if hashlib.sha256(data).digest() == chunk.sha256 else None


def _content(file: VolumeFile) -> tuple[bool, tuple[bytes, ...]]:
    return file.is_executable, tuple(chunk.sha256 for chunk in file.chunks)


class _ChunkStep(NamedTuple):
    """A chunk that is to be appended to a file."""

    file: Path
    offset: int  # in the file
    chunk: VolumeChunk
    run_end: int  # of the bytes in its pack that come with the same request; 0: it is local


class VolumeTree:
    def __init__(self, directory: Path, manifest: VolumeManifest, local: LocalChunks) -> None:
        self._directory = directory
        self._manifest = manifest
        self._local = local

    async def build(self, courier: BlobTransfer) -> int:
        """Writes all files that are not there yet; returns the number of fetched bytes."""
        steps = await asyncio.to_thread(self._plan)
        target = _AppendedFile()
        async with aclosing(_PackReader(courier, self._manifest.packs)) as packs:
            try:
                for step in steps:
                    data = await self._read(step, packs)
                    await finish_despite_cancel(asyncio.to_thread(target.append, step.file, data))
                    place = ChunkPlace(step.file, step.offset, step.chunk.size_bytes)
                    self._local.places.setdefault(step.chunk.sha256, place)
            finally:
                target.close()
        await asyncio.to_thread(self._close_to_writers)
        return packs.fetched_bytes

    async def _read(self, step: _ChunkStep, packs: "_PackReader") -> bytes:
        if not step.run_end:
            data = await asyncio.to_thread(self._local.read, step.chunk)
            if data is not None:
                return data
        return await packs.read(step.chunk, step.run_end)

    def _plan(self) -> list[_ChunkStep]:
        """The missing chunks, in the order in which they are written.

        Links whole files that are on this node already, and keeps what an interrupted fetch left.
        """
        for folder in {self._directory / file.path for file in self._manifest.files}:
            folder.parent.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
        missing = [
            (self._directory / file.path, offset, chunk)
            for file in self._manifest.files
            for offset, chunk in self._missing_chunks(file)
        ]
        known = set(self._local.places)
        is_remote = []
        for _, _, chunk in missing:
            is_remote.append(chunk.sha256 not in known)
            known.add(chunk.sha256)
        steps: list[_ChunkStep] = []
        following: VolumeChunk | None = None  # the remote chunk that is written after this one
        end = 0
        for (path, offset, chunk), remote in zip(
            reversed(missing), reversed(is_remote), strict=True
        ):
            if not remote:
                steps.append(_ChunkStep(path, offset, chunk, 0))
                continue
            own_end = chunk.offset + chunk.size_bytes
            joins = following is not None and (following.pack, following.offset) == (
                chunk.pack,
                own_end,
            )
            end = end if joins else own_end
            following = chunk
            steps.append(_ChunkStep(path, offset, chunk, end))
        return steps[::-1]

    def _missing_chunks(self, file: VolumeFile) -> list[tuple[int, VolumeChunk]]:
        path = self._directory / file.path
        if not path.exists() and self._link(file, path):
            return []
        right = _count_right(path, file)
        path.touch(mode=0o600)
        missing, offset = [], 0
        for number, chunk in enumerate(file.chunks):
            if number < right:
                place = ChunkPlace(path, offset, chunk.size_bytes)
                self._local.places.setdefault(chunk.sha256, place)
            else:
                missing.append((offset, chunk))
            offset += chunk.size_bytes
        return missing

    def _link(self, file: VolumeFile, path: Path) -> bool:
        """Two versions may share a file: nothing writes to it."""
        same = self._local.files.get(_content(file))
        if same is None or not file.chunks:
            return False
        try:
            if same.stat().st_size != file.size_bytes:
                return False
            os.link(same, path)
        except OSError:
            return False
        return True

    def _close_to_writers(self) -> None:
        for file in self._manifest.files:
            path = self._directory / file.path
            path.chmod(_PROGRAM_MODE if file.is_executable else _FILE_MODE)


class _AppendedFile:
    """The file that is written now; the next one closes it."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._descriptor = -1

    def append(self, path: Path, data: bytes) -> None:
        if path != self._path:
            self.close()
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            self._path = path
        write_all(self._descriptor, data)

    def close(self) -> None:
        if self._path is not None:
            os.close(self._descriptor)
            self._path = None


def _count_right(path: Path, file: VolumeFile) -> int:
    """How many chunks of an earlier, interrupted fetch are there and right; cuts off the rest."""
    right, offset = 0, 0
    try:
        with path.open("rb") as present:
            for chunk in file.chunks:
                if hashlib.sha256(present.read(chunk.size_bytes)).digest() != chunk.sha256:
                    break
                right, offset = right + 1, offset + chunk.size_bytes
    except FileNotFoundError:
        return 0
    status = path.stat()
    if status.st_nlink > 1 and status.st_size != offset:  # the other name is of another version
        path.unlink()
        return 0
    if right < len(file.chunks) or status.st_size != offset:
        path.chmod(0o600)
        os.truncate(path, offset)
    return right


class _PackReader:
    """Reads chunks of packs; those that follow each other in a pack come with one request."""

    def __init__(self, courier: BlobTransfer, packs: tuple[BlobRef, ...]) -> None:
        self.fetched_bytes = 0
        self._courier = courier
        self._packs = packs
        self._stream: AsyncGenerator[bytes, None] | None = None
        self._at = (-1, 0)  # the pack and the offset of what the stream yields next
        self._rest = b""

    async def read(self, chunk: VolumeChunk, run_end: int) -> bytes:
        """Raises the server's refusals, and BlobDamaged."""
        for _ in range(_WRONG_TRIES):
            data = await self._take(chunk, max(run_end, chunk.offset + chunk.size_bytes))
            digest = await asyncio.to_thread(hashlib.sha256, data)
            if digest.digest() == chunk.sha256:
                return data
            await self.aclose()
        raise BlobDamaged

    async def _take(self, chunk: VolumeChunk, run_end: int) -> bytes:
        pieces, size_bytes, tries = [], 0, 0
        while size_bytes < chunk.size_bytes:
            try:
                piece = await self._next(chunk.pack, chunk.offset + size_bytes, run_end)
            except REFUSALS:
                raise
            except PotluckError:
                piece = b""  # a connection error: resumes at the current position
            if not piece:
                await self.aclose()
                tries += 1
                await self._courier.pause(tries)
                continue
            tries, wanted = 0, chunk.size_bytes - size_bytes
            pieces.append(piece[:wanted])
            self._rest = piece[wanted:]
            size_bytes += len(pieces[-1])
            self._at = (chunk.pack, chunk.offset + size_bytes)
        if self._at[1] == run_end:
            await self._finish()
        return b"".join(pieces)

    async def _next(self, pack: int, offset: int, run_end: int) -> bytes:
        if self._stream is None or self._at != (pack, offset):
            await self.aclose()
            self._stream = self._courier.fetch(self._packs[pack], offset, run_end)
            self._at = (pack, offset)
        if self._rest:
            rest, self._rest = self._rest, b""
            return rest
        piece = await anext(self._stream, b"")
        self.fetched_bytes += len(piece)
        return piece

    async def _finish(self) -> None:
        """Reads the end of the response, so that its connection can be used again."""
        if self._stream is not None and not self._rest:
            with suppress(PotluckError):
                await anext(self._stream, b"")
        await self.aclose()

    async def aclose(self) -> None:
        if self._stream is not None:
            await self._stream.aclose()
        self._stream, self._rest, self._at = None, b"", (-1, 0)
