"""A long poll that another thread ends before its time, in the clear and below TLS."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from potluck.consumer.functions.cuttable_http import CuttableConnection
from potluck.consumer.http.transport import Transport
from potluck.model.error import ServerUnreachable
from potluck.server.http.authority import ensure_certificate
from tests.consumer.test_client import HASTE


class Mute:
    """Takes a request, and says nothing."""

    def __init__(self, stack: ExitStack, context: ssl.SSLContext | None) -> None:
        self.heard = threading.Semaphore(0)
        self._context = context
        self._listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self._accepted: list[socket.socket] = []
        self.port = self._listening.getsockname()[1]
        self._serving = threading.Thread(target=self._serve)
        self._serving.start()
        stack.callback(self._end)

    def _serve(self) -> None:
        with suppress(OSError):  # it is over
            while True:
                accepted, _ = self._listening.accept()
                self._accepted.append(accepted)
                with suppress(OSError):  # it was cut before it said anything
                    self._hear(accepted)

    def _hear(self, accepted: socket.socket) -> None:
        if self._context is not None:
            accepted = self._context.wrap_socket(
                accepted, server_side=True, do_handshake_on_connect=False
            )
            self._accepted.append(accepted)
            accepted.do_handshake()
        if accepted.recv(65_536):
            self.heard.release()

    def _end(self) -> None:
        for connection in (self._listening, *self._accepted):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._serving.join()
        for connection in self._accepted:
            connection.close()


@pytest.fixture(params=["http", "https"])
def line(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[Mute, CuttableConnection]]:
    with ExitStack() as stack:
        context, ca_file = None, None
        if request.param == "https":
            certificate = ensure_certificate(tmp_path, ["127.0.0.1"])
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate.certificate, certificate.key)
            ca_file = tmp_path / "ca.pem"
            ca_file.write_bytes(certificate.authority_pem)
        server = Mute(stack, context)
        url = f"{request.param}://127.0.0.1:{server.port}"
        cuttable_connection = CuttableConnection(Transport(url, HASTE, ca_file))
        stack.callback(cuttable_connection.close)
        yield server, cuttable_connection


def _cut(server: Mute, polled: CuttableConnection) -> None:
    server.heard.acquire()
    polled.cut()


def test_a_poll_ends_when_it_is_cut(line: tuple[Mute, CuttableConnection]) -> None:
    polled = line[1]
    for _ in range(2):  # and the next one is a poll like any other
        polled.open()
        cutting = threading.Thread(target=_cut, args=line)
        cutting.start()
        with pytest.raises(ServerUnreachable, match="Nothing answers"):  # not that it took too long
            polled.call("POST", "/v1/results", b"{}")
        cutting.join()
        assert polled.is_cut


def test_a_connection_that_has_sent_nothing_can_be_cut(
    line: tuple[Mute, CuttableConnection],
) -> None:
    _, polled = line
    polled.open()
    polled.cut()
    with pytest.raises(ServerUnreachable, match="Nothing answers"):
        polled.call("POST", "/v1/results", b"{}")
