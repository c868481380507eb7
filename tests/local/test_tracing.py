"""When traces are made, and what is a traceparent."""

import subprocess
import sys

import pytest

from potluck.local import tracing
from potluck.local.tracing import is_wanted, parse_traceparent
from potluck.model.error import BadSettings

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "ours"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, False),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
    ],
)
def test_the_standard_variables_turn_it_on(variables: dict[str, str], expected: bool) -> None:
    assert is_wanted(variables) is expected


def test_an_exporter_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadSettings, match="OTLP over HTTP only"):
        is_wanted({"OTEL_TRACES_EXPORTER": "zipkin"})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        TRACE.upper(),
        TRACE + "-extra",
        TRACE + "\n",
        f"ff{TRACE[2:]}",
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01",
    ],
)
def test_invalid_traceparents_are_ignored(text: str) -> None:
    assert parse_traceparent(text) is None


def test_off_a_context_is_passed_on_as_it_is() -> None:
    assert parse_traceparent(TRACE) == TRACE and parse_traceparent(None) is None
    with tracing.span("submit", TRACE) as inner:
        assert inner == TRACE
    assert tracing.record("lease", TRACE, tracing.now_ns(), task="task_1") == TRACE
    assert not tracing.is_tracing()


def test_without_the_extra_the_message_says_what_to_install() -> None:
    code = """
import sys
sys.modules["opentelemetry.sdk"] = None
from potluck.local.tracing import start_tracing
from potluck.model.error import PartMissing
try:
    start_tracing("client")
except PartMissing as error:
    print(error.detail, error.hint)
"""
    process = subprocess.run(
        [sys.executable, "-c", code],
        env={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "is not installed" in process.stdout and "[tracing]" in process.stdout, process.stderr
