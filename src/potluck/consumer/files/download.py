"""Downloads that resume after a cut and verify the hash.

The bytes are collected in a file beside the target, which replaces the target only when it is
complete and its hash is right. So a target that exists is complete.
"""

import errno
import hashlib
import os
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

import urllib3
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

from potluck.consumer.files.upload import Progress, TransferRetry
from potluck.consumer.http.transport import Transport, build_path, translate_error
from potluck.model.blob import BlobRef
from potluck.model.error import BadSettings, Conflict, PotluckError
from potluck.wire import routes
from potluck.wire.response import ELSEWHERE, checked_redirect

_READ_BYTES = 2**20


def download(
    transport: Transport, blob: BlobRef, target: Path, progress: Progress | None = None
) -> None:
    try:
        _download(transport, blob, target, progress)
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise BadSettings(
            f"{target} cannot be written: {error.strerror or error}.",
            "Free some space, or choose another directory."
            if is_full
            else "Choose a directory that you may write to.",
        ) from error


def _download(transport: Transport, blob: BlobRef, target: Path, progress: Progress | None) -> None:
    path = _part_path(target, blob)
    with path.open("a+b") as file:
        partial = _PartialDownload(file, blob, progress)
        absence = TransferRetry(transport.patience)
        while (done := partial.size) < blob.size_bytes:
            error = _receive(transport, partial)
            if partial.size > done:
                absence = TransferRetry(transport.patience)
            if partial.size < blob.size_bytes:
                absence.wait(translate_error(error, transport.url))
        is_right = partial.is_right()
    if not is_right:
        path.unlink()
        raise Conflict(
            f"The download is not the blob {blob.sha256[:12]}…: its hash or size differs.",
            "Try again; it starts from the beginning.",
        )
    path.replace(target)


def _part_path(target: Path, blob: BlobRef) -> Path:
    """Unique for the blob and the target, and short: the target's name may be of maximum length."""
    digest = hashlib.sha256(f"{blob.sha256} {target.name}".encode("utf-8", "replace"))
    return target.with_name(f"{target.name[:40]}.{digest.hexdigest()[:12]}.part")


class _PartialDownload:
    """The bytes received so far, and their hash."""

    def __init__(self, file: BinaryIO, blob: BlobRef, progress: Progress | None):
        self.blob = blob
        self._file = file
        self._progress = progress
        self._begin(anew=file.seek(0, os.SEEK_END) > blob.size_bytes)

    def _begin(self, anew: bool) -> None:
        if anew:
            self._file.truncate(0)
        self._file.seek(0)
        self.size = 0
        self._digest = hashlib.sha256()
        while piece := self._file.read(_READ_BYTES):
            self._count(piece)
        self._report()

    def restart(self) -> None:
        self._begin(anew=True)

    def add(self, piece: bytes) -> None:
        self._file.write(piece)
        self._count(piece)
        self._report()

    def is_right(self) -> bool:
        """Flushes the file to the disk, and checks size and hash."""
        self._file.flush()
        os.fsync(self._file.fileno())
        is_complete = self.size == self.blob.size_bytes
        return is_complete and self._digest.hexdigest() == self.blob.sha256

    def _count(self, piece: bytes) -> None:
        self.size += len(piece)
        self._digest.update(piece)

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(min(self.size, self.blob.size_bytes), self.blob.size_bytes)


def _receive(transport: Transport, partial: _PartialDownload) -> PotluckError | HTTPError:
    """Reads from one connection until it ends, and returns the error that ended it."""
    try:
        with closing(_open(transport, partial.blob.sha256, partial.size)) as response:
            if response.status == 200 and partial.size > 0:  # the range was ignored
                partial.restart()
            while partial.size <= partial.blob.size_bytes:
                # read1 returns what has arrived, so that a cut loses nothing.
                if not (piece := response.read1(_READ_BYTES)):
                    break
                partial.add(piece)
        return HTTPError("The response ended early.")
    except (PotluckError, HTTPError) as error:
        return error


def read_span(transport: Transport, blob: BlobRef, start: int, end: int) -> bytes:
    """The bytes from `start` up to `end`; a cut is tried again."""
    absence = TransferRetry(transport.patience)
    while True:
        try:
            with closing(_open(transport, blob.sha256, start, end)) as response:
                data = response.read()
            whole = response.status == 200
            piece = bytes(data[start:end] if whole else data)
            if len(piece) == end - start:
                return piece
            error: PotluckError | HTTPError = HTTPError("The response ended early.")
        except (PotluckError, HTTPError) as failure:
            error = failure
        absence.wait(translate_error(error, transport.url))


def _open(
    transport: Transport, sha256: str, start: int, end: int | None = None
) -> BaseHTTPResponse:
    headers = {"Accept": "application/octet-stream"}
    if start or end is not None:
        headers["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
    path = build_path(routes.GET_BLOB, {"sha256": sha256})
    response = transport.open_stream(path, headers, (200, 206, ELSEWHERE))
    if response.status != ELSEWHERE:
        return response
    response.close()
    return _open_store(transport, response.headers.get("Location", ""), headers)


def _open_store(transport: Transport, location: str, headers: dict[str, str]) -> BaseHTTPResponse:
    """Reads from the object store, at the signed URL that the server gave; without our token."""
    patience = transport.patience
    timeout = urllib3.Timeout(connect=patience.connect_seconds, read=patience.silence_seconds)
    response = urllib3.request(
        "GET",
        checked_redirect(location, transport.url),
        headers=headers,
        timeout=timeout,
        retries=False,
        redirect=False,
        preload_content=False,
    )
    if response.status not in (200, 206):
        response.close()
        raise HTTPError(f"The store answered with HTTP status {response.status}.")
    return response
