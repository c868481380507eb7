"""Requests are timed where their time says something about the server."""

from typing import Any

import pytest

from potluck.server.api.http.request_context import RequestContext
from potluck.server.api.operations import OPERATIONS
from potluck.server.metrics.metrics import ServerMetrics
from potluck.server.metrics.requests import RequestMetrics
from potluck.server.request_tally import RequestTally


async def answer(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


async def ignore(*_: Any) -> Any:
    pass


async def test_an_operation_that_waits_or_transfers_bytes_is_counted_but_not_timed() -> None:
    metrics = ServerMetrics()
    tally = RequestTally()
    app = RequestContext(answer, tally, RequestMetrics(metrics))
    for operation in OPERATIONS.values():
        scope: Any = {"route_handler": operation.route_handler(), "headers": []}
        await app(scope, ignore, ignore)
    assert tally.read().requests == len(OPERATIONS)
    untimed = 0
    for operation in OPERATIONS.values():
        route = f"{operation.route.method} {operation.route.path}"
        counted = metrics.registry.value("potluck_http_requests_total", route=route, status="200")
        timed = metrics.registry.value("potluck_http_request_duration_seconds_count", route=route)
        assert counted == 1, route
        assert timed == (1 if operation.is_timed else None), route
        untimed += not operation.is_timed
    assert untimed


async def test_requests_are_open_until_they_are_answered_or_fail() -> None:
    metrics, tally, open_counts = ServerMetrics(), RequestTally(), list[float | None]()
    metrics.watch_requests(tally)

    async def fail(*_: Any) -> None:
        open_counts.append(metrics.registry.value("potluck_http_requests_open"))
        raise ConnectionError

    scope: Any = {"headers": []}
    with pytest.raises(ConnectionError):
        await RequestContext(fail, tally)(scope, ignore, ignore)
    assert [*open_counts, metrics.registry.value("potluck_http_requests_open")] == [1, 0]
