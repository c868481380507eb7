"""Every request has an id, which is in the log of everything that it causes, and is counted.

The id is the client's `X-Request-Id` if it is a plain word, and else a new one. The response
repeats it.
"""

import re
import time
from collections.abc import Mapping
from typing import Any

from structlog.contextvars import bind_contextvars, bound_contextvars
from uvicorn._types import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope

from potluck.model.ids import is_id
from potluck.server.api.area import operation_of
from potluck.server.http.headers import REQUEST_ID, new_request_id
from potluck.server.metrics.requests import RequestMetrics
from potluck.server.request_tally import RequestTally

_IDS = ("task_id", "attempt_id", "node_id")
_VALID = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class RequestContext:
    """The application, with the id of the request in the log, and requests counted.

    There is one layer around the application for all of this: another one, with its own coroutines
    for each message, would cost more than what it measures.
    """

    def __init__(
        self, app: ASGI3Application, tally: RequestTally, metrics: RequestMetrics | None = None
    ) -> None:
        self._app = app
        self._tally = tally
        self._metrics = metrics

    async def __call__(
        self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        request_id, began = _request_id(scope), time.monotonic()

        async def send_with_id(message: Any) -> None:
            if message["type"] == "http.response.start":
                self._count(scope, message["status"], time.monotonic() - began)
                message["headers"] = [*message["headers"], (REQUEST_ID, request_id.encode())]
            await send(message)

        self._tally.open += 1
        try:
            with bound_contextvars(request_id=request_id):
                await self._app(scope, receive, send_with_id)
        finally:
            self._tally.open -= 1

    def _count(self, scope: Any, status: int, seconds: float) -> None:
        handler = scope.get("route_handler")
        operation = operation_of(handler)
        is_timed = operation is not None and operation.is_timed
        self._tally.count(status, seconds if is_timed else None)
        if self._metrics is not None:
            self._metrics.observe(handler, status, seconds)


def bind_path_ids(names: Mapping[str, Any]) -> None:
    """What the path is about is in the log, too; well-formed ids only, since it is the client's."""
    ids = {name: names.get(name, "") for name in _IDS}
    bind_contextvars(**{name: text for name, text in ids.items() if is_id(text, name[:-3])})


def _request_id(scope: Any) -> str:
    """Only a single valid header is taken over: it goes into logs."""
    ids = [value for name, value in scope["headers"] if name == REQUEST_ID]
    if len(ids) == 1 and _VALID.fullmatch(ids[0]):
        return str(ids[0], "ascii")
    return new_request_id()
