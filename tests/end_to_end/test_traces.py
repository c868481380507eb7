"""One trace follows a task through client, server and provider, and is exported by OTLP."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from msgspec import Struct
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess, await_true, potluck

# A span, and the one below which it is.
PARENTS = {
    "potluck run": None,
    "submit": "potluck run",
    "schedule": "submit",
    "lease": "submit",
    "prepare": "lease",
    "execute": "lease",
    "report": "lease",
    "settle": "report",
}
PROGRAMS = {
    "potluck run": "client",
    **dict.fromkeys(("submit", "schedule", "lease", "settle"), "server"),
    **dict.fromkeys(("prepare", "execute", "report"), "provider"),
}


class ReceivedSpan(Struct, frozen=True):
    program: str
    name: str
    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    seconds: float


class Collector:
    """What an OTLP collector receives over HTTP."""

    def __init__(self) -> None:
        self.spans: list[ReceivedSpan] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/traces"
                collector.take(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            names = {
                attribute.key: attribute.value.string_value
                for attribute in resource.resource.attributes
            }
            program = names["service.name"].removeprefix("potluck-")
            self.spans += [
                ReceivedSpan(
                    program,
                    span.name,
                    span.trace_id,
                    span.span_id,
                    span.parent_span_id,
                    (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
                )
                for scope in resource.scope_spans
                for span in scope.spans
            ]

    @contextmanager
    def running(self) -> Iterator["Collector"]:
        thread = threading.Thread(target=self._http.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            self._http.server_close()
            thread.join()


def run_hello(directory: Path, server: ServerProcess, **variables: str) -> None:
    directory.mkdir()
    (directory / "hello.py").write_text("import time\ntime.sleep(0.2)\nprint('hello')")
    process = subprocess.run(
        potluck("run", "--server", server.url, "hello.py"),
        env={
            **os.environ,
            "HOME": str(directory),
            "POTLUCK_WALLET_KEY": server.wallet.key.hex(),
            **variables,
        },
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0 and "hello" in process.stdout, process.stderr


def test_a_run_is_one_trace_over_three_programs(tmp_path: Path) -> None:
    with Collector().running() as collector:
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
        with (
            ServerProcess(tmp_path / "s", 0, **variables) as server,
            ProviderProcess(tmp_path / "p", server, **FAST_PROVIDER, **variables),
        ):
            run_hello(tmp_path / "home", server, **variables)
            # A task that is submitted without a trace gets none.
            client = server.client()
            assert client.finished(client.submit("print(1)"))["state"] == "succeeded"
            await_true(
                lambda: PARENTS.keys() <= {span.name for span in collector.spans},
                "every span is exported",
            )
        by_name = {span.name: span for span in collector.spans}
        assert by_name.keys() == PARENTS.keys()
        assert {span.trace_id for span in collector.spans} == {by_name["submit"].trace_id}
        assert {name: span.program for name, span in by_name.items()} == PROGRAMS
        for name, parent in PARENTS.items():
            parent_id = b"" if parent is None else by_name[parent].span_id
            assert by_name[name].parent_id == parent_id, f"{name} is below {parent}"
        assert by_name["execute"].seconds >= 0.2 > by_name["settle"].seconds


def test_a_server_that_does_not_trace_passes_the_trace_on(tmp_path: Path) -> None:
    """And a program with another tracer, here a plain header, begins it."""
    with Collector().running() as collector:
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
        with (
            ServerProcess(tmp_path / "s") as server,
            ProviderProcess(tmp_path / "p", server, **FAST_PROVIDER, **variables),
        ):
            client = server.client()
            spec = {"kind": "script", "filename": "s.py", "source": "print(1)"}
            trace_id, span_id = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
            null_parent = f"00-{'0' * 32}-{span_id}-01"
            for traceparent in (f"00-{trace_id}-{span_id}-01", "not one", null_parent):
                task = client.post("/v1/tasks", {"spec": spec}, traceparent=traceparent)
                assert client.finished(task["id"])["state"] == "succeeded"
            await_true(lambda: len(collector.spans) >= 3, "the provider's spans are exported")
        assert {span.name for span in collector.spans} == {"prepare", "execute", "report"}
        assert {span.trace_id.hex() for span in collector.spans} == {trace_id}
        assert {span.parent_id.hex() for span in collector.spans} == {span_id}


def test_a_collector_that_is_away_fails_no_command() -> None:
    code = """
from potluck.local.tracing import traced_command
with traced_command("potluck run"):
    print("done")
"""
    variables = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    process = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stdout) == (0, "done\n")
    assert "Traceback" not in process.stderr


def test_opentelemetry_is_imported_only_if_tracing_is_on() -> None:
    """The client of Redis imports it by itself where it is installed, so that is left out."""
    code = """
import sys
import potluck.cli.tasks.run, potluck.consumer, potluck.provider.daemon, potluck.server.assemble
from potluck.local import tracing
tracing.start_tracing("server")
with tracing.span("submit", None), tracing.received({}):
    tracing.trace_headers()
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    process = subprocess.run(
        [sys.executable, "-c", code], env=clean, capture_output=True, text=True, check=False
    )
    assert process.stdout.strip() == "[]", process.stderr
