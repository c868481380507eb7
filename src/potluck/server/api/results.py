"""What functions gave, for whoever called them."""

from typing import Any

from litestar import Controller, Request, Response, post

from potluck.server.auth.caller import Caller
from potluck.server.flow import results
from potluck.server.parts import Parts
from potluck.wire import codec, routes
from potluck.wire.results import AskResults, Results

_PACKED = "application/msgpack"


class ResultController(Controller):
    @post(routes.ASK_RESULTS.template, operation_id="ask_results", status_code=200)
    async def ask_results(
        self, data: AskResults, request: Request[Caller, Any, Any], parts: Parts
    ) -> Response[Results]:
        """Waits for what functions gave. MessagePack for who accepts that, else JSON."""
        found = await results.ask(parts, request.user.id, data)
        if _PACKED in request.headers.get("accept", ""):
            return Response(codec.encode_packed(found), media_type=_PACKED)  # type: ignore[arg-type]
        return Response(found)
