"""Requests by route and status, and how long they took, without locks.

Only the event loop counts, and a thread that renders reads whole numbers: an observation costs a
third of what the library's costs, and every request makes one.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from potluck.server.metrics import definitions as names

_BOUNDS = names.REQUEST_DURATION.buckets
_LABELS = [*map(floatToGoString, _BOUNDS), "+Inf"]


class RouteTimes:
    def __init__(self) -> None:
        self.by_status: defaultdict[int, int] = defaultdict(int)
        self.counts = [0] * (len(_BOUNDS) + 1)  # up to each bound, and above
        self.seconds = 0.0

    def count(self, status: int) -> None:
        self.by_status[status] += 1

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(_BOUNDS, seconds)] += 1
        self.seconds += seconds


class RequestTimes(Collector):
    def __init__(self) -> None:
        self._routes: dict[str, RouteTimes] = {}

    def route(self, name: str) -> RouteTimes:
        return self._routes.setdefault(name, RouteTimes())

    def collect(self) -> Iterator[Metric]:
        requests, times = names.REQUESTS, names.REQUEST_DURATION
        counted = CounterMetricFamily(requests.name, requests.help, labels=requests.labels)
        timed = HistogramMetricFamily(times.name, times.help, labels=times.labels)
        for name, route in list(self._routes.items()):
            for status, count in list(route.by_status.items()):
                counted.add_metric([name, str(status)], count)
            if any(route.counts):
                buckets = list(zip(_LABELS, map(float, accumulate(route.counts)), strict=True))
                timed.add_metric([name], buckets, route.seconds)
        yield counted
        yield timed
