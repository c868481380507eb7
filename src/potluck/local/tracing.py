"""Traces of tasks with OpenTelemetry, where the standard OTEL_* variables name an exporter.

A trace follows a task from the client through the server to its node and back. What is passed on
is a W3C `traceparent`: with requests as their header, with a task in the database, with a grant to
the node. Without the variables nothing of OpenTelemetry is imported, and contexts that others sent
are passed on as they are.
"""

import logging
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from potluck.local.optional_dependency import install_hint
from potluck.model.error import BadSettings, PartMissing

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import SpanContext, Tracer

TRACEPARENT = "traceparent"

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_FORM = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_CLIENT_SECONDS = 1.0
CLIENT = "client"


class _Tracing:
    """Of this process; off until it is started."""

    tracer: "Tracer | None" = None
    provider: "TracerProvider | None" = None


def start_tracing(program: str) -> None:
    """Traces this process if the variables ask for it. Raises PartMissing without the extra."""
    if _Tracing.tracer is not None or not is_wanted(os.environ):
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise PartMissing(
            f"The OTEL_* variables ask for traces, and {error.name} is not installed.",
            f"{install_hint('tracing')} Or set OTEL_SDK_DISABLED=true.",
        ) from error
    named = "OTEL_SERVICE_NAME" in os.environ
    resource = Resource.create({} if named else {"service.name": f"potluck-{program}"})
    _Tracing.provider = TracerProvider(resource=resource)
    exporter = OTLPSpanExporter(timeout=_timeout(program))
    _Tracing.provider.add_span_processor(BatchSpanProcessor(exporter))
    # Not each of its retries.
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)
    _Tracing.tracer = _Tracing.provider.get_tracer("potluck")


def _timeout(program: str) -> float | None:
    """A person does not wait for a collector that is away. None: as the variables say, or 10 s."""
    is_set = any(f"OTEL_EXPORTER_OTLP_{name}TIMEOUT" in os.environ for name in ("", "TRACES_"))
    return _CLIENT_SECONDS if program == CLIENT and not is_set else None


def is_wanted(variables: Mapping[str, str]) -> bool:
    """Raises BadSettings for an exporter that Potluck does not have."""
    if variables.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = variables.get("OTEL_TRACES_EXPORTER", "")
    if exporter not in ("", "otlp", "none"):
        raise BadSettings(
            f"OTEL_TRACES_EXPORTER is {exporter!r}, and Potluck exports by OTLP over HTTP only.",
            "Set it to otlp, and OTEL_EXPORTER_OTLP_ENDPOINT to the address of a collector.",
        )
    return exporter == "otlp" or (exporter == "" and any(map(variables.get, _ENDPOINTS)))


def stop_tracing() -> None:
    """Sends what is left, and gives up after the exporter's timeout."""
    if _Tracing.provider is not None:
        _Tracing.provider.shutdown()
    _Tracing.provider = _Tracing.tracer = None


@contextmanager
def traced_command(name: str) -> Iterator[None]:
    """Runs a command of the terminal as the first span of a trace."""
    start_tracing(CLIENT)
    try:
        with span(name):
            yield
    finally:
        stop_tracing()


def is_tracing() -> bool:
    return _Tracing.tracer is not None


def parse_traceparent(text: str | None) -> str | None:
    """None for what is not one: as the standard says, that is ignored."""
    return text if text is not None and _FORM.fullmatch(text) else None


def now_ns() -> int:
    """When a span began, for `record`."""
    return time.time_ns() if _Tracing.tracer is not None else 0


@contextmanager
def span(name: str, parent: str | None = None) -> Iterator[str | None]:
    """Runs a block as a span, below the parent. Yields what its children have as their parent."""
    if _Tracing.tracer is None:
        yield parent
        return
    with _Tracing.tracer.start_as_current_span(name, _context(parent)) as opened:
        yield _format(opened.get_span_context())


def record(name: str, parent: str, began_ns: int, **facts: str) -> str:
    """A span that ends now. Returns what its children have as their parent."""
    if _Tracing.tracer is None:
        return parent
    context = None if _is_within(parent) else _context(parent)
    recorded = _Tracing.tracer.start_span(
        name,
        context,
        attributes={f"potluck.{fact}": value for fact, value in facts.items()},
        start_time=began_ns,
    )
    recorded.end()
    return _format(recorded.get_span_context())


@contextmanager
def received(headers: Mapping[str, str]) -> Iterator[None]:
    """Spans of the block, and of the same trace, are below the span that sent the request."""
    parent = parse_traceparent(headers.get(TRACEPARENT)) if is_tracing() else None
    if parent is None:
        yield
        return
    from opentelemetry import context

    token = context.attach(_context(parent) or context.Context())
    try:
        yield
    finally:
        context.detach(token)


def trace_headers() -> dict[str, str]:
    """Of a request below the current span, also of a program that traces itself."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return {}
    current: SpanContext = trace.get_current_span().get_span_context()
    return {TRACEPARENT: _format(current)} if current.is_valid else {}


def _is_within(parent: str) -> bool:
    """Whether the current span is of the same trace, and so a nearer parent."""
    current = trace_headers().get(TRACEPARENT)
    return current is not None and current.split("-")[1] == parent.split("-")[1]


def _context(parent: str | None) -> "Context | None":
    if parent is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({TRACEPARENT: parent})


def _format(context: "SpanContext") -> str:
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
