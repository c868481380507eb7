"""The metrics of one process, and their text for Prometheus.

There is no registry of the library's own making: each process has one, which its owner creates. Its
text is made in a thread, in short steps, so that an event loop in the same process is hardly
delayed: between two steps, it gets the interpreter.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from msgspec import Struct
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from potluck.local.metrics.definition import MetricDefinition, MetricKind

# Samples that are written in one step, which takes about half a millisecond.
_STEP_SAMPLES = 16

# The values of a gauge, by the values of its labels.
LabelledValues = Mapping[tuple[str, ...], float]


class MetricsText(Struct, frozen=True):
    content_type: str
    body: bytes


class GaugeSnapshot(Collector):
    """Gauges that are set all at once, and replaced all at once: no value outlives its cause."""

    def __init__(self) -> None:
        self._values: Mapping[MetricDefinition, LabelledValues] = {}

    def replace(self, values: Mapping[MetricDefinition, LabelledValues]) -> None:
        self._values = values

    def clear(self) -> None:
        self._values = {}

    def collect(self) -> Iterator[Metric]:
        for definition, values in self._values.items():
            family = GaugeMetricFamily(definition.name, definition.help, labels=definition.labels)
            for labels, value in values.items():
                family.add_metric(labels, value)
            yield family


class MetricRegistry:
    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the series
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)

    def counter(self, definition: MetricDefinition) -> Counter:
        return Counter(*_arguments(definition, MetricKind.COUNTER), registry=self._registry)

    def gauge(self, definition: MetricDefinition) -> Gauge:
        return Gauge(*_arguments(definition, MetricKind.GAUGE), registry=self._registry)

    def histogram(self, definition: MetricDefinition) -> Histogram:
        return Histogram(
            *_arguments(definition, MetricKind.HISTOGRAM),
            buckets=definition.buckets,
            registry=self._registry,
        )

    def snapshot(self) -> GaugeSnapshot:
        snapshot = GaugeSnapshot()
        self.register(snapshot)
        return snapshot

    def register(self, collector: Collector) -> None:
        """A collector is called by the thread that renders, and must not block."""
        self._registry.register(collector)

    def render(self, accept: str) -> MetricsText:
        """In the format that the client accepts: OpenMetrics, or the older text."""
        encode, content_type = choose_encoder(accept)
        return MetricsText(content_type, encode(_PacedCollector(self._registry)))

    def value(self, name: str, **labels: str) -> float | None:
        """The current value of a series; for tests."""
        return self._registry.get_sample_value(name, labels)


def _arguments(definition: MetricDefinition, kind: MetricKind) -> tuple[str, str, tuple[str, ...]]:
    assert definition.kind is kind, f"{definition.name} is a {definition.kind}"
    return definition.name, definition.help, definition.labels


class _PacedCollector(Collector):
    """Releases the interpreter's lock between steps. The lock changes hands by itself only after
    5 ms, and an event loop asks for it several times in each request.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            family.samples = cast("list[Sample]", _Paced(family.samples))
            yield family


class _Paced:
    def __init__(self, samples: Iterable[Any]) -> None:
        self._samples = samples

    def __iter__(self) -> Iterator[Any]:
        for number, sample in enumerate(self._samples):
            if number % _STEP_SAMPLES == 0:
                time.sleep(0)
            yield sample
