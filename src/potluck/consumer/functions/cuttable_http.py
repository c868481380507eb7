"""A separate connection for long polls, which another thread can cut.

A poll names the tasks that it waits for. When a task is added, the poll is cut and sent again with
all of them; it changes nothing at the server, so nothing is lost.
"""

import socket
import threading
from contextlib import suppress

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

from potluck.consumer.http.transport import Transport


class CuttableConnection(Transport):
    """A copy of a transport, with the same bearer."""

    def __init__(self, like: Transport):
        super().__init__(like.url, like.patience, like.ca_file, like.bearer)
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._is_cut = False
        self._pool.pool_classes_by_scheme = _pool_classes(self)

    def close(self) -> None:
        """Closes the connections, and not the bearer, which is shared."""
        self._pool.clear()

    def open(self) -> None:
        """Ends a cut: later ones are meant for the next request."""
        with self._lock:
            self._is_cut = False

    def cut(self) -> None:
        """Fails the present request immediately, also if it has not been sent yet."""
        with self._lock:
            self._is_cut = True
            self._end()

    @property
    def is_cut(self) -> bool:
        return self._is_cut

    def set_socket(self, connected: socket.socket | None) -> None:
        with self._lock:
            self._socket = connected
            if self._is_cut:
                self._end()

    def _end(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                # Below TLS: another thread is reading from it.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


def _pool_classes(owner: CuttableConnection) -> dict[str, type[HTTPConnectionPool]]:
    """Pools whose connections report their sockets to the owner."""

    class Plain(HTTPConnection):
        def connect(self) -> None:
            super().connect()
            owner.set_socket(self.sock)

    class Secure(HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            owner.set_socket(self.sock)

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}
