"""A line to a server that can be held at words: whoever says one hears nothing more."""

import socket
import threading
from contextlib import suppress

from tests.end_to_end.tcp_proxy import TcpProxy

_CHUNK_BYTES = 65_536


class StallingProxy(TcpProxy):
    """Others are let through. What was held is never said: it ends with whoever said it."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._words: dict[bytes, threading.Event] = {}

    def hold(self, word: bytes) -> threading.Event:
        """The next request with this word in it, once; says when."""
        return self._words.setdefault(word, threading.Event())

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK_BYTES):
                if (
                    word := next(
                        (watched_word for watched_word in self._words if watched_word in data), None
                    )
                ) is not None:
                    self._words.pop(word).set()
                    self._swallow(source)
                    break
                target.sendall(data)
        self._hang_up(source)
        self._hang_up(target)

    def _swallow(self, source: socket.socket) -> None:
        while source.recv(_CHUNK_BYTES):
            continue
