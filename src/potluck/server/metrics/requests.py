"""Counts requests by route and status, and how long they took."""

from typing import Any, Final

from msgspec import Struct
from prometheus_client import Histogram

from potluck.server.api.area import operation_of
from potluck.server.metrics.metrics import ServerMetrics
from potluck.server.metrics.request_times import RouteTimes

_OTHER: Final = "other"  # paths that no operation has
_SUBMISSIONS: Final = frozenset({"submit_task", "submit_tasks"})


class _ObservedRoute(Struct, frozen=True):
    """What is known of a handler of the framework, found out at its first request."""

    times: RouteTimes
    is_timed: bool = False
    is_submission: bool = False


class RequestMetrics:
    """Costs a request about a microsecond."""

    def __init__(self, metrics: ServerMetrics) -> None:
        self._metrics = metrics
        self._routes: dict[Any, _ObservedRoute] = {}  # by handler; the router has found it
        outcome = metrics.acknowledgement.labels
        self._accepted, self._refused, self._failed = map(
            outcome, ("accepted", "refused", "failed")
        )

    def observe(self, handler: Any, status: int, seconds: float) -> None:
        """When a response begins."""
        route = self._routes.get(handler) or self._add_route(handler)
        route.times.count(status)
        if route.is_timed:
            route.times.observe(seconds)
        if route.is_submission:
            self._acknowledgement(status).observe(seconds)

    def _acknowledgement(self, status: int) -> Histogram:
        if status < 400:
            return self._accepted
        return self._refused if status < 500 else self._failed

    def _add_route(self, handler: Any) -> _ObservedRoute:
        """Handlers that are no operation, such as those for OPTIONS, share one."""
        operation, times = operation_of(handler), self._metrics.requests.route
        if operation is None:
            route = _ObservedRoute(times(_OTHER))
        else:
            name, path = operation.name, f"{operation.route.method} {operation.route.path}"
            route = _ObservedRoute(times(path), operation.is_timed, name in _SUBMISSIONS)
        self._routes[handler] = route
        return route
