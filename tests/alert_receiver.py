"""A destination of alerts on loopback: it keeps what apprise sends to it as JSON."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from msgspec import Struct

from tests.processes import await_true


class ReceivedAlert(Struct, frozen=True):
    at: float  # by the monotonic clock
    title: str
    body: str
    kind: str  # `failure` or `success`


class AlertReceiver:
    def __init__(self, port: int) -> None:
        self.url = f"json://127.0.0.1:{port}/a-secret-path"
        self.received: list[ReceivedAlert] = []
        self.status = 200  # with which it answers

    def keep(self, message: dict[str, Any]) -> None:
        self.received.append(
            ReceivedAlert(time.monotonic(), message["title"], message["message"], message["type"])
        )

    def about(self, name: str, subject: str = "", kind: str = "failure") -> list[ReceivedAlert]:
        """Messages about an alert, which each names in its last line."""
        return [
            message
            for message in list(self.received)
            if message.kind == kind
            and message.body.splitlines()[-1].startswith(f"{name} (")
            and subject in message.body
        ]

    def wait_for(self, name: str, subject: str = "", kind: str = "failure") -> ReceivedAlert:
        description = f"a message of {kind} about {name} {subject}"
        return await_true(lambda: self.about(name, subject, kind), description)[0]


@contextmanager
def receiving() -> Iterator[AlertReceiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if receiver.status == 200:
                receiver.keep(json.loads(body))
            self.send_response(receiver.status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = AlertReceiver(server.server_port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
