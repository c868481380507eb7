"""A socket in the hands of somebody who does not play by the rules."""

import json
import socket
import ssl
import time
from pathlib import Path
from typing import Any, NamedTuple

from potluck.local import trust
from tests.processes import ServerProcess

PATIENCE_SECONDS = 15.0


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def problem(self) -> dict[str, Any]:
        assert self.headers["content-type"] == "application/problem+json"
        problem: dict[str, Any] = json.loads(self.body)
        return problem


class Raw:
    """One connection; the block closes it."""

    def __init__(
        self, server: ServerProcess, handshake: bool = True, source: str = "127.0.0.1"
    ) -> None:
        self._received = b""
        self._sent_at = time.monotonic()
        place = ("127.0.0.1", server.port)
        self.socket = socket.create_connection(place, PATIENCE_SECONDS, (source, 0))
        if handshake and server.url.startswith("https"):
            self.socket = context_for(server).wrap_socket(self.socket, server_hostname="127.0.0.1")

    def send(self, data: bytes) -> None:
        self._sent_at = time.monotonic()
        self.socket.sendall(data)

    def closed_after(self, seconds: float = PATIENCE_SECONDS) -> float:
        """How long after the last word to it the server hung up, without a word of its own."""
        self.socket.settimeout(seconds)
        try:
            received = self.socket.recv(4096)
        except (ConnectionResetError, ssl.SSLError):
            received = b""
        assert received == b"", f"it answered: {received!r}"
        return time.monotonic() - self._sent_at

    def answer(self) -> Answer:
        """The next one, whole."""
        first, *lines = self._until(b"\r\n\r\n").decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        size = int(headers.get("content-length", 0))
        while len(self._received) < size:
            self._more()
        body, self._received = self._received[:size], self._received[size:]
        return Answer(int(first.split()[1]), headers, body)

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._received:
            self._more()
        line, _, self._received = self._received.partition(mark)
        return line

    def _more(self) -> None:
        received = self.socket.recv(65_536)
        assert received, f"it hung up after {self._received!r}"
        self._received += received

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


def context_for(server: ServerProcess) -> ssl.SSLContext:
    return trust.make_tls_context(authority_file(server))


def authority_file(server: ServerProcess) -> Path:
    return server.directory / "server" / "tls" / "ca.pem"
