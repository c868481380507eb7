"""Bytes on their way from the server: what was broken off goes on, and what arrives is checked.

They are kept beside the target until all are there and their hash is right, and only then take its
place. So a target that exists is whole.
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

from potluck.consumer.files.transfer_retry import Absence
from potluck.consumer.files.upload import Progress
from potluck.consumer.http.api_call import path_of
from potluck.consumer.http.transport import Transport, translated
from potluck.model.blob import BlobRef
from potluck.model.error import BadSettings, Conflict, PotluckError
from potluck.wire import routes
from potluck.wire.response import ELSEWHERE, elsewhere

_READ_BYTES = 2**20


def download(
    transport: Transport, blob: BlobRef, target: Path, progress: Progress | None = None
) -> None:
    try:
        _download(transport, blob, target, progress)
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise BadSettings(
            f"{target} can not be written: {error.strerror or error}.",
            "Make room, or name another directory."
            if is_full
            else "Name a directory that you may write to.",
        ) from error


def _download(transport: Transport, blob: BlobRef, target: Path, progress: Progress | None) -> None:
    path = _beside(target, blob)
    with path.open("a+b") as file:
        beginning = _PartialDownload(file, blob, progress)
        absence = Absence(transport.patience)
        while (done := beginning.size) < blob.size_bytes:
            broken = _receive(transport, beginning)
            if beginning.size > done:
                absence = Absence(transport.patience)
            if beginning.size < blob.size_bytes:
                absence.wait(translated(broken, transport.url))
        is_right = beginning.is_right()
    if not is_right:
        path.unlink()
        raise Conflict(
            f"What arrived is not the blob {blob.sha256[:12]}…: its hash or its size is another.",
            "Try again; it begins anew.",
        )
    path.replace(target)


def _beside(target: Path, blob: BlobRef) -> Path:
    """Of other bytes, and for another file, there may be a beginning too; and the target's name
    may be as long as names can be."""
    meant = hashlib.sha256(f"{blob.sha256} {target.name}".encode("utf-8", "replace"))
    return target.with_name(f"{target.name[:40]}.{meant.hexdigest()[:12]}.part")


class _PartialDownload:
    """What has arrived so far, and its hash."""

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
        self._tell()

    def begin_anew(self) -> None:
        self._begin(anew=True)

    def add(self, piece: bytes) -> None:
        self._file.write(piece)
        self._count(piece)
        self._tell()

    def is_right(self) -> bool:
        """Asked once, when all is there; from then on it is on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        is_whole = self.size == self.blob.size_bytes
        return is_whole and self._digest.hexdigest() == self.blob.sha256

    def _count(self, piece: bytes) -> None:
        self.size += len(piece)
        self._digest.update(piece)

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(min(self.size, self.blob.size_bytes), self.blob.size_bytes)


def _receive(transport: Transport, beginning: _PartialDownload) -> PotluckError | HTTPError:
    """As much as one connection brings, and what ended it."""
    try:
        with closing(_open(transport, beginning.blob, beginning.size)) as response:
            if response.status == 200 and beginning.size > 0:  # it brings the whole
                beginning.begin_anew()
            while beginning.size <= beginning.blob.size_bytes:
                # As it comes: what has arrived before a cut is kept.
                if not (piece := response.read1(_READ_BYTES)):
                    break
                beginning.add(piece)
        return HTTPError("It ended early.")
    except (PotluckError, HTTPError) as error:
        return error


def _open(transport: Transport, blob: BlobRef, start: int) -> BaseHTTPResponse:
    headers = {"Accept": "application/octet-stream"}
    if start:
        headers["Range"] = f"bytes={start}-"
    path = path_of(routes.GET_BLOB, {"sha256": blob.sha256})
    response = transport.open_stream(path, headers, (200, 206, ELSEWHERE))
    if response.status != ELSEWHERE:
        return response
    response.close()
    return _elsewhere(transport, response.headers.get("Location", ""), headers)


def _elsewhere(transport: Transport, place: str, headers: dict[str, str]) -> BaseHTTPResponse:
    """From the store itself, which the server has given us an address of; without our token."""
    patience = transport.patience
    timeout = urllib3.Timeout(connect=patience.connect_seconds, read=patience.silence_seconds)
    response = urllib3.request(
        "GET",
        elsewhere(place, transport.url),
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
