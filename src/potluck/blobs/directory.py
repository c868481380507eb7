"""Blobs as files in a directory, which belongs to one server.

A blob is written beside the others, brought to the disk, and only then given its name; and the name
is brought to the disk too. (obstore's LocalStore renames likewise, but leaves both to the kernel.)
All of it happens off the event loop.
"""

import asyncio
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from potluck.blobs.key import check_key, check_prefix
from potluck.local.durable import sync, write_new
from potluck.model.error import NotFound, Unavailable

# No key begins with a dot, so this is never listed.
_UNFINISHED = ".unfinished"

T = TypeVar("T")


class DirectoryBlobs:
    def __init__(self, directory: Path):
        self._root = directory
        self._unfinished = directory / _UNFINISHED
        # A put makes directories that a delete removes when they are empty.
        self._tree = threading.Lock()
        shutil.rmtree(self._unfinished, ignore_errors=True)  # of a server that was killed
        self._unfinished.mkdir(mode=0o700, parents=True)

    async def put(self, key: str, data: bytes) -> None:
        await _off_the_loop(lambda: self._put(self._path(key), data))

    async def get(self, key: str) -> bytes:
        return await _off_the_loop(lambda: _read(self._path(key), 0, -1))

    async def get_range(self, key: str, offset: int, length: int) -> bytes:
        assert offset >= 0 and length >= 0
        return await _off_the_loop(lambda: _read(self._path(key), offset, length))

    async def exists(self, key: str) -> bool:
        return await _off_the_loop(self._path(key).is_file)

    async def list(self, prefix: str) -> list[str]:
        start = self._root / check_prefix(prefix)
        return await _off_the_loop(lambda: _files_below(start, self._root))

    async def delete(self, keys: Sequence[str]) -> None:
        paths = [self._path(key) for key in keys]
        await _off_the_loop(lambda: self._delete(paths))

    def _path(self, key: str) -> Path:
        return self._root / check_key(key)

    def _put(self, path: Path, data: bytes) -> None:
        draft = self._unfinished / secrets.token_hex(8)
        try:
            write_new(draft, data)
            with self._tree:
                self._make_directory(path.parent)
                draft.replace(path)
            sync(path.parent)
        finally:
            draft.unlink(missing_ok=True)

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


async def _off_the_loop(work: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(work)
    except FileNotFoundError as error:
        raise NotFound("That part of the stored data does not exist.") from error
    except OSError as error:
        raise Unavailable(
            f"The server's storage does not work just now: {error.strerror}.",
            "Try again later; the server's operator should look at its disk.",
        ) from error


def _files_below(start: Path, root: Path) -> list[str]:
    found: list[str] = []
    for place, directories, files in os.walk(start):
        directories[:] = [name for name in directories if name != _UNFINISHED]
        below = Path(place).relative_to(root)
        found.extend((below / name).as_posix() for name in files)
    return sorted(found)


def _read(path: Path, offset: int, length: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(length)
