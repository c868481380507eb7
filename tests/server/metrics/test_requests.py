"""Requests are timed where their time says something about the server."""

from typing import Any

from potluck.server.api.operations import OPERATIONS
from potluck.server.metrics.metrics import ServerMetrics
from potluck.server.metrics.requests import RequestMetrics


async def answer(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


async def ignore(*_: Any) -> None:
    pass


async def test_an_operation_that_waits_or_transfers_bytes_is_counted_but_not_timed() -> None:
    metrics = ServerMetrics()
    app = RequestMetrics(answer, metrics)
    for operation in OPERATIONS.values():
        await app({"route_handler": operation.route_handler()}, ignore, ignore)  # type: ignore[arg-type]
    untimed = 0
    for operation in OPERATIONS.values():
        route = f"{operation.route.method} {operation.route.path}"
        counted = metrics.registry.value("potluck_http_requests_total", route=route, status="200")
        timed = metrics.registry.value("potluck_http_request_duration_seconds_count", route=route)
        assert counted == 1, route
        assert timed == (1 if operation.is_timed else None), route
        untimed += not operation.is_timed
    assert untimed
