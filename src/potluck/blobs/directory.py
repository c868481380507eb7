"""Blobs as files in a directory, which belongs to one server; others may read it.

A blob is written to a temporary file, synced and renamed; the rename is synced too. (obstore's
LocalStore renames likewise, but does not sync.) All of it happens off the event loop.
"""

import asyncio
import errno
import hashlib
import os
import secrets
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from potluck.blobs.interface import STEP_BYTES, Assembled, check_key, check_prefix, rechunk
from potluck.local.durable_files import sync, write_all
from potluck.local.shielded import finish_despite_cancel
from potluck.model.error import NotFound, Unavailable

# No key begins with a dot, so this is never listed.
_UNFINISHED = ".unfinished"
_PAGE_BYTES = 4096

T = TypeVar("T")


class DirectoryBlobs:
    def __init__(self, directory: Path, *, is_owner: bool = True):
        """Only the owner may write: it removes what a killed one has left half-written."""
        self._root = directory
        self._unfinished = directory / _UNFINISHED
        # A put creates directories that a delete removes when they are empty.
        self._tree = threading.Lock()
        if is_owner:
            shutil.rmtree(self._unfinished, ignore_errors=True)
            self._unfinished.mkdir(mode=0o700, parents=True)

    async def put(self, key: str, data: bytes) -> None:
        path = self._path(key)

        def write() -> None:
            with _TemporaryFile(self._unfinished) as draft:
                draft.open()
                draft.write(data)
                self._rename(draft, path)

        await _off_the_loop(write)

    async def put_stream(self, key: str, pieces: AsyncIterator[bytes]) -> None:
        path = self._path(key)
        with _TemporaryFile(self._unfinished) as draft:
            await _off_the_loop(draft.open)
            async for step in rechunk(pieces):
                await _off_the_loop(partial(draft.write, step))
            await _off_the_loop(lambda: self._rename(draft, path))

    async def assemble(self, parts: Sequence[str], key: str) -> Assembled:
        sources, path = [self._path(part) for part in parts], self._path(key)

        def copy() -> Assembled:
            digest, size_bytes = hashlib.sha256(), 0
            with _TemporaryFile(self._unfinished) as draft:
                draft.open()
                for step in _steps_of(sources):
                    digest.update(step)
                    draft.write(step)
                    size_bytes += len(step)
                self._rename(draft, path)
            return Assembled(digest.hexdigest(), size_bytes)

        return await _off_the_loop(copy)

    async def get(self, key: str) -> bytes:
        return await _off_the_loop(self._path(key).read_bytes)

    async def stream(self, key: str, offset: int, length: int) -> AsyncIterator[bytes]:
        assert offset >= 0 and length >= 0
        path = self._path(key)
        file = await _off_the_loop(lambda: path.open("rb", buffering=0))
        with file:
            file.seek(offset)
            while length > 0:
                step = min(length, STEP_BYTES)
                data = await _off_the_loop(partial(file.read, step))
                if not data:
                    return
                length -= len(data)
                yield data

    async def list(self, prefix: str) -> list[str]:
        start = self._root / check_prefix(prefix)
        return await _off_the_loop(lambda: _files_below(start, self._root))

    async def delete(self, keys: Sequence[str]) -> None:
        paths = [self._path(key) for key in keys]
        await _off_the_loop(lambda: self._delete(paths))

    async def check(self) -> None:
        """Writes a page: a quota or a read-only file system shows in no number."""

        def write() -> None:
            with _TemporaryFile(self._unfinished) as draft:
                draft.open()
                draft.write(bytes(_PAGE_BYTES))

        await _off_the_loop(write)

    async def sign(self, key: str, seconds: float) -> str | None:  # noqa: ARG002
        return None

    def _path(self, key: str) -> Path:
        return self._root / check_key(key)

    def _rename(self, draft: "_TemporaryFile", path: Path) -> None:
        draft.sync()
        with self._tree:
            self._make_directory(path.parent)
            draft.path.replace(path)
        sync(path.parent)

    def _make_directory(self, directory: Path) -> None:
        if directory.is_dir():
            return
        self._make_directory(directory.parent)
        directory.mkdir(mode=0o700)
        sync(directory.parent)

    def _delete(self, paths: Sequence[Path]) -> None:
        with self._tree:
            for path in paths:
                path.unlink(missing_ok=True)
                self._remove_empty(path.parent)

    def _remove_empty(self, directory: Path) -> None:
        with suppress(OSError):  # it is not empty, or not there
            while directory != self._root:
                directory.rmdir()
                directory = directory.parent


class _TemporaryFile:
    """A new file, which is removed with the block unless it was renamed."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / secrets.token_hex(8)
        self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self.path.unlink(missing_ok=True)

    def open(self) -> None:
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)

    def write(self, data: bytes) -> None:
        write_all(self._descriptor, data)

    def sync(self) -> None:
        os.fsync(self._descriptor)


async def _off_the_loop(work: Callable[[], T]) -> T:
    """A cancelled caller waits for the thread, which uses a file descriptor that the caller would
    close and another file could get."""
    try:
        return await finish_despite_cancel(asyncio.to_thread(work))
    except FileNotFoundError as error:
        raise NotFound("That part of the stored data does not exist.") from error
    except OSError as error:
        raise _unavailable(error) from error


def _unavailable(error: OSError) -> Unavailable:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Unavailable(
            "The server's disk is full.",
            "Try again later; the server's operator has to free some space.",
            10.0,
        )
    return Unavailable(
        f"The server's storage is unavailable: {error.strerror}.",
        "Try again later; the server's operator should check its disk.",
    )


def _files_below(start: Path, root: Path) -> list[str]:
    keys: list[str] = []
    for directory, directories, files in os.walk(start):
        directories[:] = [name for name in directories if name != _UNFINISHED]
        below = Path(directory).relative_to(root)
        keys.extend((below / name).as_posix() for name in files)
    return sorted(keys)


def _steps_of(paths: Sequence[Path]) -> Iterator[bytes]:
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while step := file.read(STEP_BYTES):
                yield step
