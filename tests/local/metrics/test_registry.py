"""One registry for a process: its text, gauges that are replaced at once, and short steps."""

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from potluck.local.metrics.definition import counter, gauge, histogram
from potluck.local.metrics.registry import MetricRegistry

_DONE = counter("potluck_done_total", "What was done.", "kind")
_WAITING = gauge("potluck_waiting", "What waits.", "kind")
_SECONDS = histogram("potluck_wait_seconds", "How long.", (0.1, 1.0))


def test_both_formats_can_be_read_and_have_no_created_series() -> None:
    registry = MetricRegistry()
    registry.counter(_DONE).labels("a").inc()
    registry.histogram(_SECONDS).observe(0.5)
    newest = registry.render("application/openmetrics-text; version=1.0.0, text/plain;q=0.5")
    assert newest.content_type.startswith("application/openmetrics-text; version=1.0.0")
    parsed = read_openmetrics(newest.body.decode())  # type: ignore[no-untyped-call]
    families = {family.name: family for family in parsed}
    assert families["potluck_done"].samples[0].value == 1
    assert "process_cpu_seconds" in families
    older = registry.render("")
    assert older.content_type.startswith("text/plain; version=0.0.4")
    assert {"potluck_done", "potluck_wait_seconds"} <= {
        family.name for family in read_text(older.body.decode())
    }
    assert b"_created" not in newest.body + older.body


def test_no_value_of_a_snapshot_outlives_the_next() -> None:
    registry = MetricRegistry()
    snapshot = registry.snapshot()
    snapshot.replace({_WAITING: {("a",): 1.0, ("b",): 2.0}})
    assert registry.value("potluck_waiting", kind="b") == 2.0
    snapshot.replace({_WAITING: {("a",): 3.0}})
    assert registry.value("potluck_waiting", kind="b") is None
    snapshot.clear()
    assert b"potluck_waiting" not in registry.render("").body


def test_two_registries_share_nothing() -> None:
    first, second = MetricRegistry(), MetricRegistry()
    first.counter(_DONE).labels("a").inc()
    second.counter(_DONE)
    assert second.value("potluck_done_total", kind="a") is None


def test_a_long_family_is_written_in_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two steps another thread may have the interpreter."""
    registry = MetricRegistry()
    registry.snapshot().replace({_WAITING: {(str(number),): 1.0 for number in range(1000)}})
    pauses: list[float] = []
    monkeypatch.setattr("potluck.local.metrics.registry.time.sleep", pauses.append)
    assert registry.render("").body.count(b"potluck_waiting{") == 1000
    assert len(pauses) >= 1000 / 16
    assert not any(pauses), "it yields, and does not wait"
