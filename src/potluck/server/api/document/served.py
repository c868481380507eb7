"""Serves the document, which is built on the first request."""

from typing import Any

from litestar import Request
from litestar.openapi.plugins import JsonRenderPlugin

from potluck.server.api.document.build import document
from potluck.wire import codec


class Document(JsonRenderPlugin):
    def __init__(self) -> None:
        super().__init__()
        self._encoded = b""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:  # noqa: ARG002
        if not self._encoded:
            self._encoded = codec.encode_json(document(request.app))
        return self._encoded
