"""Bodies: decoded strictly, by our own codec, into the type that the handler names.

The framework's own reading coerces "5" to 5 and answers 500 to invalid UTF-8 and deep nesting.
"""

from typing import Any

from litestar import Request

from potluck.wire import codec


class StrictRequest(Request[Any, Any, Any]):
    async def json(self) -> Any:
        return codec.decode_json(await self.body(), self._wanted())

    async def msgpack(self) -> Any:
        return codec.decode_packed(await self.body(), self._wanted())

    def _wanted(self) -> Any:
        field = self.route_handler.parsed_data_field
        assert field is not None, "only a handler with `data` reads a body"
        return field.annotation
