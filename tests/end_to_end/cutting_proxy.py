"""A line to a server that is cut again and again: each connection after so many bytes of
the answer, wherever that is in what is said. When it has been cut as often as was asked, it holds.
"""

import socket
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Self


class CuttingProxy:
    def __init__(self, port: int, after_bytes: Iterable[int]) -> None:
        self._port = port
        self._after_bytes = list(after_bytes)
        self._lock = threading.Lock()
        self._ends: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.cuts = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._ends:
            _hang_up(end)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client_end, _ = self._listener.accept()
                server_end = socket.create_connection(("127.0.0.1", self._port))
                with self._lock:
                    limit_bytes = self._after_bytes.pop(0) if self._after_bytes else None
                self._ends += [client_end, server_end]
                threading.Thread(target=_pump, args=(client_end, server_end), daemon=True).start()
                threading.Thread(
                    target=self._answer, args=(server_end, client_end, limit_bytes), daemon=True
                ).start()

    def _answer(
        self, server_end: socket.socket, client_end: socket.socket, limit_bytes: int | None
    ) -> None:
        if not _pump(server_end, client_end, limit_bytes):
            with self._lock:
                self.cuts += 1


def _pump(source: socket.socket, target: socket.socket, limit_bytes: int | None = None) -> bool:
    """Whether it ended by itself, and not because it was cut."""
    with suppress(OSError):
        while data := source.recv(65_536 if limit_bytes is None else min(65_536, limit_bytes)):
            target.sendall(data)
            if limit_bytes is not None:
                limit_bytes -= len(data)
                if limit_bytes <= 0:
                    break
    _hang_up(source)
    _hang_up(target)
    return limit_bytes is None or limit_bytes > 0


def _hang_up(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)  # also for whoever waits for something from it
    end.close()
