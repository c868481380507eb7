"""The declaration of a metric: its name, kind, help and labels.

Each program has one table of them, from which `docs/metrics.md` is generated. A label has few
values, and never the id of a task, an attempt or an account.
"""

from enum import StrEnum

from msgspec import Struct


class MetricKind(StrEnum):
    """How Prometheus treats the values."""

    COUNTER = "counter"  # only grows, from the start of the process
    GAUGE = "gauge"  # the latest value
    HISTOGRAM = "histogram"  # counts of observations up to each bound, and their sum
    SUMMARY = "summary"  # the number of observations, and their sum


class MetricDefinition(Struct, frozen=True):
    name: str  # with the unit, and `_total` for a counter
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()  # of a histogram: the upper bounds
    is_pool_wide: bool = False  # of a server: exported only by the instance that leads


def counter(name: str, text: str, *labels: str) -> MetricDefinition:
    return MetricDefinition(name, MetricKind.COUNTER, text, labels)


def gauge(name: str, text: str, *labels: str) -> MetricDefinition:
    return MetricDefinition(name, MetricKind.GAUGE, text, labels)


def pool_gauge(name: str, text: str, *labels: str) -> MetricDefinition:
    return MetricDefinition(name, MetricKind.GAUGE, text, labels, is_pool_wide=True)


def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> MetricDefinition:
    return MetricDefinition(name, MetricKind.HISTOGRAM, text, labels, buckets)


def summary(name: str, text: str, *labels: str) -> MetricDefinition:
    return MetricDefinition(name, MetricKind.SUMMARY, text, labels)
