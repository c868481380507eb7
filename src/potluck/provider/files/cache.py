"""Caches input blobs on this node for later tasks.

Each account has its own directory and shares no files with others, so that no account can notice
another's files. Files in use stay; the least recently used of the rest are evicted first. A file of
an earlier process is verified by its hash before it is used again.
"""

import asyncio
import hashlib
import os
import shutil
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from potluck.model.blob import BlobRef
from potluck.model.error import SandboxUnavailable
from potluck.provider.files.blob_transfer import BlobDamaged, BlobTransfer, fetch
from potluck.provider.files.work_directory import InputFiles
from potluck.provider.sandbox.driver import InputFailed

_READ_BYTES = 2**20
_PART = ".part"


class FileCache:
    """One for each data directory. Holders, identified by name, must release their blobs."""

    def __init__(self, directory: Path, most_bytes: int) -> None:
        self._directory = directory
        self._most_bytes = most_bytes
        self._held: dict[str, frozenset[Path]] = {}  # immutable sets, since threads read them
        self._turns: dict[Path, tuple[asyncio.Lock, int]] = {}
        self._checked: set[Path] = set()
        self._coming: dict[Path, int] = {}  # bytes reserved for running downloads
        self._removing = threading.Lock()  # prevents finding a file that is about to be removed

    async def hold(
        self, name: str, account_id: str, blobs: Sequence[BlobRef], courier: BlobTransfer
    ) -> InputFiles:
        """Fetches missing blobs and holds all until `release`. Raises the server's refusals,
        InputFailed and SandboxUnavailable."""
        paths = {self._path(account_id, blob): blob for blob in blobs}
        self._held[name] = self._held.get(name, frozenset()).union(paths)
        fetched = [await self._bring(path, blob, courier) for path, blob in paths.items()]
        return InputFiles({blob.sha256: path for path, blob in paths.items()}, sum(fetched))

    def share(self, name: str, other: str) -> None:
        """Lets `other` hold what `name` holds, until `release(other)`."""
        self._held[other] = self._held.get(other, frozenset()).union(self._held.get(name, ()))

    def release(self, name: str) -> None:
        self._held.pop(name, None)

    @asynccontextmanager
    async def _turn(self, path: Path) -> AsyncIterator[None]:
        """Serializes concurrent requests for a file, so that it is fetched once."""
        lock, waiting = self._turns.get(path, (asyncio.Lock(), 0))
        self._turns[path] = (lock, waiting + 1)
        try:
            async with lock:
                yield
        finally:
            lock, waiting = self._turns.pop(path)
            if waiting > 1:
                self._turns[path] = (lock, waiting - 1)

    async def _bring(self, path: Path, blob: BlobRef, courier: BlobTransfer) -> int:
        """Returns the number of fetched bytes."""
        async with self._turn(path):
            if await asyncio.to_thread(self._is_here, path, blob):
                return 0
            self._coming[path] = blob.size_bytes
            try:
                await asyncio.to_thread(self._make_room, blob.size_bytes)
                fetched_bytes = await fetch(courier, blob, path)
            except BlobDamaged:
                raise InputFailed(
                    f"the file {blob.sha256[:12]}… arrived damaged three times"
                ) from None
            finally:
                del self._coming[path]
            self._checked.add(path)
            return fetched_bytes

    def _is_here(self, path: Path, blob: BlobRef) -> bool:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._removing:
            is_there = path.exists()
        if not is_there:
            return False
        if path not in self._checked and _hash_of(path) != blob.sha256:
            path.unlink()
            return False
        self._checked.add(path)
        os.utime(path)
        return True

    def _make_room(self, size_bytes: int) -> None:
        """Evicts the least recently used files until all running downloads fit."""
        files = [file for file in self._files() if _final_path(file[0]) not in self._coming]
        needed_bytes = sum(list(self._coming.values())) + sum(status.st_size for _, status in files)
        for other, status in sorted(files, key=lambda file: file[1].st_mtime):
            if needed_bytes <= self._most_bytes:
                break
            if self._remove(other):
                needed_bytes -= status.st_size
        free_bytes = shutil.disk_usage(self._directory).free
        if needed_bytes > self._most_bytes or size_bytes > free_bytes:
            raise SandboxUnavailable(
                f"This node has no room for a file of {size_bytes} bytes that the task needs."
            )

    def _remove(self, path: Path) -> bool:
        """Removes the file unless it is held; requests hold a file before they look for it."""
        with self._removing:
            if any(_final_path(path) in files for files in list(self._held.values())):
                return False
            path.unlink(missing_ok=True)
        self._checked.discard(path)
        return True

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        for path in self._directory.glob("*/*"):
            with suppress(FileNotFoundError):
                yield path, path.stat()

    def _path(self, account_id: str, blob: BlobRef) -> Path:
        account = hashlib.sha256(account_id.encode()).hexdigest()[:16]
        return self._directory / account / blob.sha256


def _final_path(path: Path) -> Path:
    """The path of the complete file, also for a partial one."""
    return path.with_name(path.name.removesuffix(_PART))


def _hash_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(_READ_BYTES):
            digest.update(data)
    return digest.hexdigest()
