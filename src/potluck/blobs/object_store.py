"""Blobs in an object store that several servers share: S3, Google's, Azure's, or a compatible one.

obstore's blocking calls run in our threads: its asyncio support may kill the process when the event
loop ends (pyo3-async-runtimes, issue 40).
"""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import IO, TypeVar

import obstore
import structlog
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import AzureStore, GCSStore, S3Store, from_url

from potluck.blobs.interface import STEP_BYTES, Assembled, check_key, check_prefix, rechunk
from potluck.model.error import BadSettings, NotFound, Unavailable

log = structlog.get_logger()

T = TypeVar("T")

# Each may have a part of an upload in memory.
_THREADS = 8
_READ_BYTES = 2**20
_WRITE_BYTES = 8 * 2**20
# S3 allows 10,000 pieces for an object, so those of a very large one are larger.
_MOST_PIECES = 9_000
_DELETES_AT_ONCE = 1_000
_RETRY = {"max_retries": 3, "retry_timeout": timedelta(seconds=20)}


class ObjectStoreBlobs:
    def __init__(self, url: str, spool: Path) -> None:
        """Parts are collected in the directory `spool` before they are sent."""
        try:
            self._store = from_url(url, retry_config=_RETRY)  # type: ignore[call-overload]
        except (BaseError, ValueError, OSError) as error:
            raise BadSettings(
                f"POTLUCK_BLOBS_URL is not a supported object store: {_first_line(error)}",
                "Write s3://bucket/folder, gs://bucket/folder or az://account/container/folder.",
            ) from error
        spool.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._spool = spool
        self._threads = ThreadPoolExecutor(_THREADS, "object-store")

    async def check(self) -> None:
        """Raises BadSettings if the store refuses the credentials, Unavailable if it is away."""
        try:
            with suppress(NotFound):
                await self._off_the_loop(partial(obstore.head, self._store, "potluck"))
        except Unavailable as error:
            if not isinstance(error.__cause__, PermissionDeniedError | UnauthenticatedError):
                raise
            raise BadSettings(
                "The object store refuses the server's credentials.",
                "See the log; check POTLUCK_BLOBS_URL, the bucket and the credentials.",
            ) from error

    def close(self) -> None:
        self._threads.shutdown()

    async def put(self, key: str, data: bytes) -> None:
        await self._off_the_loop(partial(obstore.put, self._store, check_key(key), data))

    async def put_stream(self, key: str, pieces: AsyncIterator[bytes]) -> None:
        """Through a file, so that a slow sender takes neither memory nor a thread."""
        with tempfile.TemporaryFile(dir=self._spool) as spooled:
            async for step in rechunk(pieces):
                await self._off_the_loop(partial(spooled.write, step))
            await self._off_the_loop(lambda: self._put_file(check_key(key), spooled))

    async def assemble(self, parts: Sequence[str], key: str) -> Assembled:
        return await self._off_the_loop(lambda: self._assemble(parts, check_key(key)))

    async def get(self, key: str) -> bytes:
        return await self._off_the_loop(
            lambda: bytes(obstore.get(self._store, check_key(key)).bytes())
        )

    async def stream(self, key: str, offset: int, length: int) -> AsyncIterator[bytes]:
        """A request for each step, so that a slow reader keeps no connection to the store open."""
        assert offset >= 0 and length >= 0
        end = offset + length
        while offset < end:
            window = {"start": offset, "end": min(offset + _READ_BYTES, end)}
            read = partial(obstore.get_range, self._store, check_key(key), **window)
            data = bytes(await self._off_the_loop(read))
            yield data
            if len(data) < window["end"] - offset:
                return
            offset += len(data)

    async def list(self, prefix: str) -> list[str]:
        start = check_prefix(prefix)

        def all_below() -> list[str]:
            pages = obstore.list(self._store, prefix=start or None)
            return sorted(entry["path"] for page in pages for entry in page)

        return await self._off_the_loop(all_below)

    async def delete(self, keys: Sequence[str]) -> None:
        checked = [check_key(key) for key in keys]

        def delete() -> None:
            for start in range(0, len(checked), _DELETES_AT_ONCE):
                self._delete(checked[start : start + _DELETES_AT_ONCE])

        await self._off_the_loop(delete)

    async def sign(self, key: str, seconds: float) -> str | None:
        store = self._store
        if not isinstance(store, S3Store | GCSStore | AzureStore):
            return None
        lasts = timedelta(seconds=seconds)
        return await self._off_the_loop(lambda: obstore.sign(store, "GET", check_key(key), lasts))

    def _delete(self, keys: Sequence[str]) -> None:
        """Some stores raise for a missing key, and may have stopped at it."""
        try:
            obstore.delete(self._store, keys)
        except FileNotFoundError:
            for key in keys:
                with suppress(FileNotFoundError):
                    obstore.delete(self._store, key)

    def _put_file(self, key: str, spooled: IO[bytes]) -> None:
        spooled.seek(0)
        obstore.put(self._store, key, spooled.read())

    def _assemble(self, parts: Sequence[str], key: str) -> Assembled:
        digest, size_bytes = hashlib.sha256(), 0
        piece_bytes = _WRITE_BYTES * (1 + len(parts) // _MOST_PIECES)
        writer = obstore.open_writer(self._store, key, buffer_size=piece_bytes, max_concurrency=2)
        try:
            for part in parts:
                for step in obstore.get(self._store, check_key(part)).stream(STEP_BYTES):
                    digest.update(step)
                    writer.write(step)
                    size_bytes += len(step)
        except BaseException:
            # Closing is the only way to release the writer, and creates a partial object.
            writer.close()
            obstore.delete(self._store, key)
            raise
        writer.close()
        return Assembled(digest.hexdigest(), size_bytes)

    async def _off_the_loop(self, work: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, work)
        except FileNotFoundError as error:
            raise NotFound("That part of the stored data does not exist.") from error
        except (BaseError, OSError) as error:
            log.warning("the object store failed", detail=_first_line(error))
            raise Unavailable(
                "The server's object store is unavailable.",
                "Try again later; the server's operator should check it.",
            ) from error


def _first_line(error: Exception) -> str:
    """The rest is for debugging obstore."""
    return str(error).partition("\n")[0]
