"""The table of metrics keeps to what Prometheus expects of names, units and labels."""

import re

import pytest

from potluck.local.metrics.definition import MetricDefinition, MetricKind
from potluck.provider.metrics.definitions import TABLE as PROVIDER
from potluck.server.metrics.definitions import ACKNOWLEDGEMENT, TABLE, TASK_START

# What https://openmetrics.io calls base units, and plain counts.
_SCALED = ("milli", "micro", "kilo", "mega", "percent", "minutes", "hours", "_ms", "kib", "gib")


@pytest.mark.parametrize("metric", [*TABLE, *PROVIDER], ids=lambda metric: metric.name)
def test_names_units_and_labels(metric: MetricDefinition) -> None:
    assert re.fullmatch(r"potluck_[a-z]+(_[a-z]+)*", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER)
    assert not any(scale in metric.name for scale in _SCALED)
    assert metric.help.endswith(".")
    assert bool(metric.buckets) == (metric.kind is MetricKind.HISTOGRAM)
    assert list(metric.buckets) == sorted(metric.buckets)
    assert not any(label.endswith("id") for label in metric.labels if label != "UUID")
    assert not {"le", "quantile", "instance", "job"}.intersection(metric.labels)


@pytest.mark.parametrize("table", [TABLE, PROVIDER])
def test_a_name_exists_once(table: tuple[MetricDefinition, ...]) -> None:
    names = [metric.name for metric in table]
    assert len(names) == len(set(names))


def test_the_objectives_are_bounds_of_their_histograms() -> None:
    assert 1.0 in ACKNOWLEDGEMENT.buckets
    assert 10.0 in TASK_START.buckets
