"""The metrics of this instance: one registry, with the series of hot paths bound once."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from math import nan

from potluck import __version__
from potluck.local.metrics.registry import MetricRegistry, MetricsText
from potluck.model.credit import MICRO
from potluck.server.metrics import definitions as names
from potluck.server.metrics.database import DatabaseMetrics
from potluck.server.metrics.request_times import RequestTimes
from potluck.server.metrics.work import WorkMetrics
from potluck.server.request_tally import RequestTally


class ServerMetrics:
    def __init__(self) -> None:
        self.registry = registry = MetricRegistry()
        self.database = DatabaseMetrics(registry)
        self.work = WorkMetrics(registry)
        self.pool = registry.snapshot()  # pool-wide figures; empty while another instance leads
        self.requests = RequestTimes()
        registry.register(self.requests)
        self.acknowledgement = registry.histogram(names.ACKNOWLEDGEMENT)
        self._open_requests = registry.gauge(names.REQUESTS_OPEN)
        self.round_seconds = registry.histogram(names.ROUNDS)
        self.plan_seconds = registry.histogram(names.PLANNING)
        decisions = registry.counter(names.DECISIONS)
        self._applied, self._refused = map(decisions.labels, ("applied", "refused"))
        self.memory_differences = registry.counter(names.DIFFERENCES)
        self.violations = registry.counter(names.VIOLATIONS)
        self._leading = registry.gauge(names.LEADING)
        self._leader_term = registry.gauge(names.LEADER_TERM)
        self.scheduler_failing = registry.gauge(names.SCHEDULER_FAILING)
        self._part_working = registry.gauge(names.PART_WORKING)
        self._device_temperature = registry.histogram(names.DEVICE_TEMPERATURE)
        self._deliveries = registry.counter(names.DELIVERIES)
        self._receipts = registry.counter(names.RECEIPTS)
        self._ledger_moved = registry.counter(names.LEDGER_MOVED)
        self.loop_lag = registry.histogram(names.LOOP_LAG)
        self.disk_free = registry.gauge(names.DISK_FREE)
        self.clock_skew = registry.gauge(names.CLOCK_SKEW)
        registry.gauge(names.BUILD).labels(__version__).set(1)
        self._rendering = asyncio.Lock()

    def watch_requests(self, tally: RequestTally) -> None:
        """Reads it whenever metrics are rendered."""
        self._open_requests.set_function(lambda: tally.open)

    async def render(self, accept: str) -> MetricsText:
        """In a thread, one at a time: it takes the processor for a moment."""
        async with self._rendering:
            return await asyncio.to_thread(self.registry.render, accept)

    def lead(self, term: int) -> None:
        self._leading.set(1)
        self._leader_term.set(term)

    def stand_by(self) -> None:
        """Another instance leads, or none does: pool-wide figures are no longer ours to tell."""
        self._leading.set(0)
        self.scheduler_failing.set(0)
        self.pool.clear()

    def show_parts(self, parts: Mapping[str, bool]) -> None:
        for part, is_working in parts.items():
            self._part_working.labels(part).set(is_working)

    def watch_certificate(self, read_expiry: Callable[[], datetime | None]) -> None:
        """Reads it whenever metrics are rendered. Called once, by a server with TLS."""

        def seconds() -> float:
            expiry = read_expiry()
            return nan if expiry is None else expiry.timestamp()

        self.registry.gauge(names.CERTIFICATE_EXPIRY).set_function(seconds)

    def count_decisions(self, applied: int, refused: int) -> None:
        self._applied.inc(applied)
        self._refused.inc(refused)

    def count_delivery(self, outcome: str) -> None:
        self._deliveries.labels(outcome).inc()

    def count_receipts(self, outcome: str, count: int) -> None:
        self._receipts.labels(outcome).inc(count)

    def observe_temperatures(self, celsius: Iterable[float | None]) -> None:
        for value in celsius:
            if value is not None:
                self._device_temperature.observe(value)

    def count_moved(self, moved_micro: Mapping[str, int]) -> None:
        for kind, amount_micro in moved_micro.items():
            self._ledger_moved.labels(kind).inc(amount_micro / MICRO)
