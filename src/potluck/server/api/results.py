"""What functions gave, for whoever called them."""

from typing import Any

from litestar import Controller, Request, post

from potluck.server.auth.caller import Caller
from potluck.server.flow.report import result_poll
from potluck.server.services import Parts
from potluck.wire import routes
from potluck.wire.results import AskResults, Results


class ResultController(Controller):
    @post(routes.ASK_RESULTS.template, operation_id="ask_results", status_code=200)
    async def ask_results(
        self, data: AskResults, request: Request[Caller, Any, Any], parts: Parts
    ) -> Results:
        """Waits for what functions gave; in MessagePack their bytes need no base64."""
        return await result_poll.ask(parts, request.user.id, data)
