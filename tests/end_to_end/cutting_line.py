"""A line to a server that is cut again and again: each connection after so many bytes of
the answer, wherever that is in what is said. When it has been cut as often as was asked, it holds.
"""

import socket
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Self


class CuttingLine:
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
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._port))
                with self._lock:
                    most = self._after_bytes.pop(0) if self._after_bytes else None
                self._ends += [near, far]
                threading.Thread(target=_pump, args=(near, far), daemon=True).start()
                threading.Thread(target=self._answer, args=(far, near, most), daemon=True).start()

    def _answer(self, far: socket.socket, near: socket.socket, most: int | None) -> None:
        if not _pump(far, near, most):
            with self._lock:
                self.cuts += 1


def _pump(source: socket.socket, target: socket.socket, most: int | None = None) -> bool:
    """Whether it ended by itself, and not because it was cut."""
    with suppress(OSError):
        while data := source.recv(65_536 if most is None else min(65_536, most)):
            target.sendall(data)
            if most is not None:
                most -= len(data)
                if most <= 0:
                    break
    _hang_up(source)
    _hang_up(target)
    return most is None or most > 0


def _hang_up(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)  # also for whoever waits for something from it
    end.close()
