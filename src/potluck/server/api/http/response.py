"""Responses with values: content negotiation, ETag, and a link to the next page.

The ETag is a hash of the encoded body, so it is strong, differs between formats, and covers data
without a version, such as the waiting reason of a task.
"""

import hashlib
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, urlencode

from litestar import Litestar, Request, Response
from litestar.response.base import ASGIResponse
from msgspec import Struct

from potluck.server.api.http import formats
from potluck.server.api.http.earlier_clients import is_earlier_client, without_later
from potluck.wire import codec

T = TypeVar("T")
_HASH_BYTES = 16


class EncodedResponse(Response[T]):
    def to_asgi_response(
        self, app: Litestar | None, request: Request[Any, Any, Any], **options: Any
    ) -> ASGIResponse:
        content: Any = self.content
        if isinstance(content, Struct):
            self.headers.update(next_page(request, content))
            self._encode(request, content)
        if request.method == "GET" and isinstance(self.content, bytes) and self._is_found(options):
            etag = self.headers.setdefault("ETag", etag_of(self.content))
            if is_known(request, etag):
                return self._not_modified(request)
        return super().to_asgi_response(app, request, **options)

    def _encode(self, request: Request[Any, Any, Any], content: Struct) -> None:
        self.media_type = formats.chosen(request)
        is_packed = self.media_type == formats.PACKED
        value = without_later(content) if is_earlier_client(request.headers) else content
        encoded: Any = codec.encode_packed(value) if is_packed else codec.encode_json(value)
        self.content = encoded
        self.headers["Vary"] = "Accept"

    def _is_found(self, options: dict[str, Any]) -> bool:
        return (self.status_code or options.get("status_code")) == 200

    def _not_modified(self, request: Request[Any, Any, Any]) -> ASGIResponse:
        empty = Response(b"", status_code=304, headers=self.headers, media_type=formats.JSON)
        return empty.to_asgi_response(None, request)


def etag_of(body: bytes) -> str:
    return f'"{hashlib.blake2b(body, digest_size=_HASH_BYTES).hexdigest()}"'


def is_known(request: Request[Any, Any, Any], etag: str) -> bool:
    """Whether the client has this version; weak tags match too."""
    tags = ",".join(request.headers.getall("if-none-match", []))
    return tags.strip() == "*" or etag in {
        tag.strip().removeprefix("W/") for tag in tags.split(",")
    }


def next_page(request: Request[Any, Any, Any], page: Struct) -> dict[str, str]:
    """A Link header to the next page, if there is one."""
    cursor = getattr(page, "next_cursor", None)
    if cursor is None or request.method != "GET":
        return {}
    query_items = parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
    parameters = [(name, value) for name, value in query_items if name != "cursor"]
    query = urlencode([*parameters, ("cursor", str(cursor))])
    return {"Link": f'<{quote(request.url.path)}?{query}>; rel="next"'}
