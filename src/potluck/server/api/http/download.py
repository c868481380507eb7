"""Downloads of blobs, whole or as a range, always as an attachment."""

import re
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from litestar import Request, Response
from litestar.response import Stream

from potluck.model.blob import Sha256Text
from potluck.model.error import Internal, NotFound, RangeNotSatisfiable
from potluck.server.api.http.response import is_known
from potluck.server.services import Services
from potluck.store.files.blobs import Stored, no_such_blob

_OCTETS = "application/octet-stream"
_SHA256 = re.compile("[0-9a-f]{64}")
# A single range; for several, HTTP allows the whole blob as the answer.
_RANGE = re.compile(r"bytes=(\d{0,99})-(\d{0,99})")


class ByteRange(NamedTuple):
    """From `start` up to, and excluding, `end`."""

    start: int
    end: int


async def answer(
    request: Request[Any, Any, Any], services: Services, stored: Stored
) -> Response[Any]:
    """Redirects to the object store if it signs addresses and the operator has enabled that, and if
    the caller may read all of the object."""
    seconds = services.settings.presign_seconds if stored.spans is None else 0
    address = await services.blobs.sign(stored.object_key, seconds) if seconds else None
    if address is not None:
        return Response(b"", status_code=307, headers={"Location": address}, media_type=_OCTETS)
    etag = _etag(stored)
    if is_known(request, etag):
        return Response(b"", status_code=304, headers={"ETag": etag}, media_type=_OCTETS)
    size_bytes = stored.blob.size_bytes
    span = wanted_span(request.headers.get("range"), size_bytes)
    if not _is_of_these(request.headers.get("if-range"), stored):
        span = None
    start, end = span or (0, size_bytes)
    if not stored.may_read(start, end):
        raise no_such_blob(stored.blob.sha256)
    headers = {
        "Accept-Ranges": "bytes",
        "Content-Disposition": "attachment",
        "Content-Length": str(end - start),
        "ETag": etag,
    }
    if span is not None:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size_bytes}"
    pieces = await _begun(services.blobs.stream(stored.object_key, start, end - start), stored)
    status = 200 if span is None else 206
    return Stream(pieces, status_code=status, headers=headers, media_type=_OCTETS)


async def _begun(pieces: AsyncIterator[bytes], stored: Stored) -> AsyncIterator[bytes]:
    """Reads the first piece before the response starts, so that a read error has a status."""
    try:
        first = await anext(pieces, b"")
    except NotFound as error:
        raise Internal(
            f"The stored bytes of {stored.blob.sha256} are missing.",
            "The server's operator should restore them from a backup.",
        ) from error

    async def all_of_them() -> AsyncIterator[bytes]:
        yield first
        async for piece in pieces:
            yield piece

    return all_of_them()


def wanted_span(header: str | None, size_bytes: int) -> ByteRange | None:
    """None for the whole blob: no range, or one that we do not understand."""
    match = _RANGE.fullmatch(header or "")
    if match is None or match[1] == match[2] == "":
        return None
    if not match[1]:
        start, end = max(0, size_bytes - int(match[2])), size_bytes
    else:
        start, end = int(match[1]), size_bytes if not match[2] else int(match[2]) + 1
        if match[2] and end <= start:
            return None
    if start >= size_bytes:
        raise RangeNotSatisfiable(
            f"The range starts after the end of the blob, which has {size_bytes} bytes.",
            "If you have that many bytes, the download is complete.",
        )
    return ByteRange(start, min(end, size_bytes))


def sha256_of(text: str) -> Sha256Text:
    if not _SHA256.fullmatch(text):
        raise no_such_blob(text)
    return text


def _is_of_these(header: str | None, stored: Stored) -> bool:
    """Whether If-Range, if present, names this blob."""
    return header is None or header == _etag(stored)


def _etag(stored: Stored) -> str:
    return f'"{stored.blob.sha256}"'
