"""Errors go to Sentry if it is configured: a real SDK, and an endpoint on loopback."""

import gzip
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from potluck.local.sentry import open_sentry
from potluck.model.error import BadSettings, PartMissing

_PROGRAM = """
import sys
import structlog
from potluck.local.log import configure_logs
from potluck.local.sentry import open_sentry

configure_logs(observers=[open_sentry(sys.argv[1], "POTLUCK_SENTRY_DSN", "0.1.0")])
log = structlog.get_logger()

def fail(password):
    raise ValueError("refused potluck_key_" + "x" * 43)

try:
    fail("planted-password-d3b07384d1")
except ValueError:
    log.exception("request failed")
log.warning("this is not an error")
import sentry_sdk
sentry_sdk.flush(20)
"""


@contextmanager
def ingesting() -> Iterator[tuple[str, list[bytes]]]:
    received: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            is_packed = self.headers.get("Content-Encoding") == "gzip"
            received.append(gzip.decompress(body) if is_packed else body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://public@127.0.0.1:{server.server_port}/1", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_an_error_is_sent_without_secrets_and_variables() -> None:
    with ingesting() as (dsn, received):
        command = [sys.executable, "-c", _PROGRAM, dsn]
        subprocess.run(command, check=True, timeout=60, stderr=subprocess.DEVNULL)
    events = [line for body in received for line in body.splitlines() if b'"exception"' in line]
    assert len(events) == 1, received
    text = events[0].decode()
    (exception,) = json.loads(text)["exception"]["values"]
    assert (exception["type"], exception["value"]) == ("ValueError", "refused [secret]")
    for secret in ("planted-password", "x" * 43, "this is not an error", '"vars"', "context_line"):
        assert secret not in text, secret


def test_a_wrong_dsn_and_a_missing_sdk_are_reported() -> None:
    with pytest.raises(BadSettings, match="POTLUCK_SENTRY_DSN") as raised:
        open_sentry("a-key-that-is-no-dsn", "POTLUCK_SENTRY_DSN", "0.1.0")
    assert "a-key" not in str(raised.value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "sentry_sdk", None)
        with pytest.raises(PartMissing, match="SDK"):
            open_sentry("http://public@127.0.0.1:9/1", "POTLUCK_SENTRY_DSN", "0.1.0")
