"""A line to a server that a test can cut and mend: whoever uses it hears nothing, then all is back.

The server goes on meanwhile, and others reach it. Its name at the line's end is one that it knows:
both ends are loopback, and have the same port.
"""

import socket
import threading
from contextlib import suppress
from typing import Self

NEAR, FAR = "127.0.0.1", "127.0.0.2"  # where the line begins, where the server listens
_CHUNK_BYTES = 65_536


class TcpProxy:
    def __init__(self, port: int) -> None:
        self.url = f"http://{NEAR}:{port}"
        self._port = port
        self._ends: set[socket.socket] = set()
        self._listener: socket.socket | None = None

    def mend(self) -> None:
        if self._listener is None:
            self._listener = socket.create_server((NEAR, self._port))
            threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def cut(self) -> None:
        """Nothing that was open stays so, and nobody listens any more."""
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        for end in list(self._ends):
            self._hang_up(end)

    def __enter__(self) -> Self:
        self.mend()
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client_end, _ = listener.accept()
                server_end = socket.create_connection((FAR, self._port))
                self._ends |= {client_end, server_end}
                for source, other in ((client_end, server_end), (server_end, client_end)):
                    threading.Thread(target=self._pump, args=(source, other), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK_BYTES):
                target.sendall(data)
        self._hang_up(source)
        self._hang_up(target)

    def _hang_up(self, end: socket.socket) -> None:
        self._ends.discard(end)
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
