"""A server that says that it stops while it still works on a request."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class DrainingServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.address = f"127.0.0.1:{self.server_address[1]}"
        self.is_busy = threading.Event()
        self.is_stopping = threading.Event()
        self.may_answer = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    server: DrainingServer

    def do_GET(self) -> None:
        self._answer(503 if self.server.is_stopping.is_set() else 200)

    def do_POST(self) -> None:
        self.server.is_busy.set()
        self.server.may_answer.wait(60)
        self._answer(200)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing: the test looks at the proxy's log."""


@contextmanager
def draining_server() -> Iterator[DrainingServer]:
    with DrainingServer() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.may_answer.set()
            server.shutdown()
            thread.join()
