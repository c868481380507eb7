"""Bodies: JSON or MessagePack, decoded strictly by our codec into the handler's type.

The framework's own decoder coerces "5" to 5, and fails with 500 on invalid UTF-8 or deep nesting.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from litestar import Request
from litestar.exceptions import InternalServerException
from litestar.openapi.spec import OpenAPIMediaType, Operation, RequestBody, Schema
from litestar.openapi.spec.enums import OpenAPIFormat, OpenAPIType
from msgspec import Struct

from potluck.model.decode_errors import plain_message
from potluck.model.error import InvalidInput, UnsupportedMediaType
from potluck.server.api.http.formats import JSON, PACKED, PACKED_NAMES
from potluck.server.services import Services
from potluck.server.version_check import check_protocol
from potluck.wire import codec
from potluck.wire.strict_types import StrictRegisterNode
from potluck.wire.version import FIRST_PROTOCOL


class StrictRequest(Request[Any, Any, Any]):
    async def body(self) -> bytes:
        """A client that disconnects in the middle of its body causes a 400, not a 500."""
        try:
            return await super().body()
        except InternalServerException as error:
            raise _cut_short() from error

    async def pieces(self) -> AsyncIterator[bytes]:
        """Streams a body of plain bytes, which may be too large for memory."""
        self._expect("application/octet-stream")
        try:
            async for piece in self.stream():
                yield piece
        except InternalServerException as error:
            raise _cut_short() from error

    async def json(self) -> Any:
        """The value of the handler's type, decoded from either format."""
        if self._is_packed():
            return codec.decode_packed(await self.body(), self._wanted())
        self._expect(JSON, f"{JSON}` or `{PACKED}")
        body, expected_type = await self.body(), self._wanted()
        try:
            return codec.decode_json(body, expected_type)
        except InvalidInput:
            if expected_type is StrictRegisterNode:
                _check_protocol(self.app.state.services, body)
            raise

    def _is_packed(self) -> bool:
        return self._declared_type("") in PACKED_NAMES

    def _expect(self, kind: str, instead: str = "") -> None:
        """A missing content type is accepted."""
        content_type = self._declared_type(kind)
        if content_type != kind:
            raise UnsupportedMediaType(
                f"The body has the content type {content_type[:100]!r}.",
                f"Send `Content-Type: {instead or kind}`.",
            )

    def _declared_type(self, otherwise: str) -> str:
        content_type = self.headers.get("content-type", otherwise)
        return str(content_type).partition(";")[0].strip().lower()

    def _wanted(self) -> Any:
        field = self.route_handler.parsed_data_field
        assert field is not None, "only a handler with `data` decodes a body"
        return field.annotation


def _cut_short() -> InvalidInput:
    return InvalidInput("The connection was closed before the end of the body.")


class _AnyMachine(Struct, frozen=True):
    potluck_version: str = "unknown"


class _AnyRegistration(Struct, frozen=True):
    """The part of a registration that is the same in every protocol version."""

    protocol: int = FIRST_PROTOCOL
    description: _AnyMachine = _AnyMachine()


def _check_protocol(services: Services, body: bytes) -> None:
    """Raises UpgradeRequired if an invalid registration has another protocol version."""
    try:
        registration = codec.decode_json(body, _AnyRegistration)
    except InvalidInput:
        return
    version = plain_message(registration.description.potluck_version)[:200]
    check_protocol(services, registration.protocol, version)


@dataclass
class OctetsOperation(Operation):
    """Documents a body of plain bytes, which no handler has as a parameter."""

    def __post_init__(self) -> None:
        schema = Schema(type=OpenAPIType.STRING, format=OpenAPIFormat.BINARY)
        content = {"application/octet-stream": OpenAPIMediaType(schema)}
        self.request_body = RequestBody(content, required=True)
