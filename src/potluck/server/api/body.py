"""Bodies: decoded strictly, by our own codec, into the type that the handler names.

The framework's own reading coerces "5" to 5 and answers 500 to invalid UTF-8 and deep nesting.
"""

from collections.abc import AsyncIterator
from typing import Any

from litestar import Request
from litestar.exceptions import InternalServerException

from potluck.model.error import InvalidInput, UnsupportedMediaType
from potluck.server.api import version_skew
from potluck.wire import codec
from potluck.wire.strict import StrictRegisterNode


class StrictRequest(Request[Any, Any, Any]):
    async def body(self) -> bytes:
        """A client that hangs up before its body is whole made a mistake, and not we."""
        try:
            return await super().body()
        except InternalServerException as error:
            raise _cut_short() from error

    async def pieces(self) -> AsyncIterator[bytes]:
        """A body of plain bytes, as it comes in: it may be too large to be held."""
        self._expect("application/octet-stream")
        try:
            async for piece in self.stream():
                yield piece
        except InternalServerException as error:
            raise _cut_short() from error

    async def json(self) -> Any:
        self._expect("application/json")
        body, wanted = await self.body(), self._wanted()
        try:
            return codec.decode_json(body, wanted)
        except InvalidInput:
            if wanted is StrictRegisterNode:
                version_skew.check(body)
            raise

    async def msgpack(self) -> Any:
        self._expect("application/msgpack")
        return codec.decode_packed(await self.body(), self._wanted())

    def _expect(self, kind: str) -> None:
        """A client that says nothing is taken to mean it."""
        said = self.headers.get("content-type", kind).partition(";")[0].strip().lower()
        if said != kind:
            raise UnsupportedMediaType(
                f"The body is said to be {said[:100]!r}.", f"Send `Content-Type: {kind}`."
            )

    def _wanted(self) -> Any:
        field = self.route_handler.parsed_data_field
        assert field is not None, "only a handler with `data` reads a body"
        return field.annotation


def _cut_short() -> InvalidInput:
    return InvalidInput("The connection ended before the body did.")
