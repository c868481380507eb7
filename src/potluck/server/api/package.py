"""The package that this server runs, for whoever joins: what it is, and the wheel itself."""

from collections.abc import AsyncIterator
from typing import Any

from litestar import Controller, Request, Response, get
from litestar.response import Stream

from potluck.model.error import NotFound
from potluck.server.api.response import is_known
from potluck.server.package_wheel import OwnWheel
from potluck.server.services import Parts
from potluck.wire import routes
from potluck.wire.package import Package

_WHEEL = "application/octet-stream"
# The name holds a mark of the content: what it names never changes.
_FOR_GOOD = "public, max-age=31536000, immutable"
# In pieces, so that what somebody reads slowly does not lie in memory once for each of them.
_PIECE_BYTES = 65_536


class PackageController(Controller):
    @get(routes.PACKAGE.template, operation_id="package")
    async def package(self, parts: Parts) -> Package:
        """What this server runs, and how its wheel is called; for `pip install` with its hash."""
        return _wheel(parts).package

    @get(routes.PACKAGE_FILE.template, operation_id="package_file", media_type=_WHEEL)
    async def package_file(
        self, request: Request[Any, Any, Any], parts: Parts, file: str
    ) -> Response[Any]:
        """The wheel, under its own name and no other."""
        wheel = _wheel(parts)
        if file != wheel.package.file:
            raise NotFound(
                f"There is no file {file[:64]!r} here.",
                f"This server hands out {wheel.package.file}; ask for its join line again.",
            )
        etag = f'"{wheel.package.sha256}"'
        headers = {"Cache-Control": _FOR_GOOD, "ETag": etag}
        if is_known(request, etag):
            return Response(b"", status_code=304, headers=headers, media_type=_WHEEL)
        headers |= {
            "Content-Disposition": "attachment",
            "Content-Length": str(wheel.package.size_bytes),
        }
        return Stream(_pieces(wheel.data), headers=headers, media_type=_WHEEL)


def _wheel(parts: Parts) -> OwnWheel:
    if parts.wheel is None:
        raise NotFound(
            "This server has no package to hand out: its code was not installed.",
            "Ask its operator where to get Potluck from.",
        )
    return parts.wheel


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for begin in range(0, len(data), _PIECE_BYTES):
        yield data[begin : begin + _PIECE_BYTES]
