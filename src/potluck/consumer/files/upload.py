"""Uploads in parts, so that a cut costs one part, and retries while the server is unreachable.

The hash is sent first: a blob that the account has already is not sent again, and an interrupted
upload of this account, also of another process, resumes after the stored parts.
"""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, TypeVar

from potluck.consumer.http.transport import Patience, Transport, build_path, call_api
from potluck.model.blob import BlobRef
from potluck.model.error import InvalidInput, NotFound, PotluckError, Unavailable
from potluck.wire import routes
from potluck.wire.files import BeginUpload, Upload
from potluck.wire.response import decode_response

T = TypeVar("T")
# Called with the bytes done and the total.
Progress = Callable[[int, int], None]
_READ_BYTES = 2**20
_MOST_STARTS = 5
_LONGEST_PAUSE_SECONDS = 1.0


class TransferRetry:
    """The failures since the last progress."""

    def __init__(self, patience: Patience):
        self._patience = patience
        self._failures = 0
        self._began = time.monotonic()

    def wait(self, error: PotluckError) -> None:
        """Waits until the next try; raises the error if it is permanent or lasts too long."""
        self._failures += 1
        requested_seconds, patience = error.retry_after_seconds, self._patience
        is_over = time.monotonic() - self._began > patience.give_up_seconds
        if not error.retryable or is_over or not patience.accepts(requested_seconds):
            raise error
        time.sleep(patience.pause_seconds(self._failures, requested_seconds))


def persist(transport: Transport, act: Callable[[], T]) -> T:
    """Repeats a transfer that is safe to repeat while the server is unreachable."""
    absence = TransferRetry(transport.patience)
    while True:
        try:
            return act()
        except PotluckError as error:
            absence.wait(error)


def open_file(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read: {error.strerror}.", "Check its name and its permissions."
        ) from error


def describe_blob(source: BinaryIO) -> BlobRef:
    """Hash and size of the content."""
    digest = hashlib.sha256()
    size = 0
    source.seek(0)
    while piece := source.read(_READ_BYTES):
        digest.update(piece)
        size += len(piece)
    return BlobRef(digest.hexdigest(), size)


def upload(
    transport: Transport, source: BinaryIO, blob: BlobRef, progress: Progress | None = None
) -> int:
    """Returns when the server has all bytes, and how many of them had to be sent.

    An upload that the server dropped is started again.
    """
    for _ in range(_MOST_STARTS):
        begun = _begin(transport, blob)
        try:
            if begun.complete or _send(transport, source, blob, begun, progress):
                break
        except NotFound:
            continue
    else:
        raise Unavailable(
            "The server dropped the upload repeatedly.", "Try again; it resumes where it can."
        )
    if progress is not None:
        progress(blob.size_bytes, blob.size_bytes)
    if begun.complete:
        return 0
    return max(0, blob.size_bytes - begun.parts_done * begun.part_bytes)


def _begin(transport: Transport, blob: BlobRef) -> Upload:
    body = BeginUpload(blob)
    return call_api(transport, routes.BEGIN_UPLOAD, Upload, body=body, repeatable=True)


def _send(
    transport: Transport, source: BinaryIO, blob: BlobRef, begun: Upload, progress: Progress | None
) -> bool:
    upload = begun
    while not upload.complete and (done := upload.parts_done * begun.part_bytes) < blob.size_bytes:
        if progress is not None:
            progress(done, blob.size_bytes)
        upload = _put_patiently(transport, source, blob, upload)
    return upload.complete or _finished(transport, begun.upload_id)


def _put_patiently(transport: Transport, source: BinaryIO, blob: BlobRef, upload: Upload) -> Upload:
    """Retries while the server is unreachable: it still knows the upload afterwards."""
    return persist(transport, lambda: _put(transport, source, blob, upload))


def _put(transport: Transport, source: BinaryIO, blob: BlobRef, upload: Upload) -> Upload:
    """Sends the next part. The response says where to continue: another process may send too."""
    number, size = upload.parts_done, upload.part_bytes
    expected = min(size, blob.size_bytes - number * size)
    source.seek(number * size)
    part = source.read(expected)
    if len(part) != expected:
        raise _changed()
    path = build_path(routes.PUT_PART, {"upload_id": upload.upload_id, "number": str(number)})
    headers = {"Content-Type": "application/octet-stream"}
    response = transport.call(routes.PUT_PART.method, path, part, headers, repeatable=True)
    return decode_response(response, Upload, transport.url)


def _finished(transport: Transport, upload_id: str) -> bool:
    """Polls while the server assembles a large upload."""
    pause = 0.02
    while True:
        names = {"upload_id": upload_id}
        if call_api(transport, routes.FINISH_UPLOAD, Upload, names, repeatable=True).complete:
            return True
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def _changed() -> PotluckError:
    return InvalidInput(
        "The file became shorter during the upload.", "Try again when nothing writes to it."
    )
