"""A connection of its own for long polls, which another thread can end before their time.

A poll names the tasks that it waits for. When there is another one to wait for, the poll is cut,
and asked again with all of them; nothing is lost by that, since asking changes nothing.
"""

import socket
import threading
from contextlib import suppress

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

from potluck.consumer.http.transport import Transport


class CuttableConnection(Transport):
    """Speaks as the transport that it is made from."""

    def __init__(self, like: Transport):
        super().__init__(like.url, like.patience, like.ca_file, like.bearer)
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._is_cut = False
        self._pool.pool_classes_by_scheme = _noting(self)

    def close(self) -> None:
        """The bearer is another's, and stays."""
        self._pool.clear()

    def open(self) -> None:
        """From now on a cut is meant for what is asked next."""
        with self._lock:
            self._is_cut = False

    def cut(self) -> None:
        """Whatever is asked now fails at once, also if it has not been sent yet."""
        with self._lock:
            self._is_cut = True
            self._end()

    @property
    def is_cut(self) -> bool:
        return self._is_cut

    def noted(self, connected: socket.socket | None) -> None:
        with self._lock:
            self._socket = connected
            if self._is_cut:
                self._end()

    def _end(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                # Of the socket below TLS: the other thread is in the middle of reading from it.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


def _noting(line: CuttableConnection) -> dict[str, type[HTTPConnectionPool]]:
    """Pools whose connections tell the line of their sockets."""

    class Plain(HTTPConnection):
        def connect(self) -> None:
            super().connect()
            line.noted(self.sock)

    class Secure(HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            line.noted(self.sock)

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}
