"""Runs inside a container, as a part of its init process: the listener of the proxy.

Connections to it cross the container's streams in frames, because some runtimes let nothing else
through. A payload starts with the number of its connection. Each side may send `WINDOW_BYTES` of a
connection ahead of what the other has passed on, so a slow connection holds up no other.

Imports the standard library only.
"""

import select
import socket
import struct
from collections.abc import Callable

NUMBER = struct.Struct(">I")
AMOUNT = struct.Struct(">II")
OPEN, DATA, END, RESET, WINDOW = b"o", b"d", b"e", b"k", b"w"  # OPEN comes from inside only
WINDOW_BYTES = 262_144
MOST_CONNECTIONS = 128
_PIECE_BYTES = 65_536


class _Connection:
    def __init__(self, number: int, end: socket.socket) -> None:
        self.number = number
        self.end = end
        self.window = WINDOW_BYTES  # that may still be sent out
        self.waiting = bytearray()  # for the client
        self.is_read = False  # the client has sent everything
        self.is_ended = False  # nothing more comes for the client

    @property
    def is_over(self) -> bool:
        return self.is_read and self.is_ended and not self.waiting


class ContainerProxy:
    """`send` queues a frame."""

    def __init__(self, port: int, send: "Callable[[bytes, bytes], None]") -> None:
        self._send = send
        self._listener = socket.create_server(("127.0.0.1", port), backlog=MOST_CONNECTIONS)
        self._listener.setblocking(False)
        self._numbers = 0
        self._by_number: dict[int, _Connection] = {}
        self._by_descriptor: dict[int, _Connection] = {}

    def register(self, poll: "select.poll", is_full: bool) -> None:
        """`is_full`: nothing may be queued now."""
        if not is_full and len(self._by_number) < MOST_CONNECTIONS:
            poll.register(self._listener, select.POLLIN)
        for descriptor, connection in self._by_descriptor.items():
            may_read = not is_full and not connection.is_read and connection.window
            events = select.POLLIN if may_read else 0
            if connection.waiting:
                events |= select.POLLOUT
            if events:
                poll.register(descriptor, events)

    def handle(self, descriptor: int, event: int) -> None:
        if descriptor == self._listener.fileno():
            self._accept()
        elif descriptor in self._by_descriptor:
            self._exchange(self._by_descriptor[descriptor], event)

    def receive(self, kind: bytes, payload: bytes) -> None:
        """A frame from outside."""
        connection = self._by_number.get(NUMBER.unpack_from(payload)[0])
        if connection is None:  # closed meanwhile
            return
        if kind == DATA:
            connection.waiting += payload[NUMBER.size :]
            self._write(connection)
        elif kind == WINDOW:
            connection.window += AMOUNT.unpack(payload)[1]
        elif kind == END:
            connection.is_ended = True
            self._write(connection)
        elif kind == RESET:
            self._drop(connection)

    def _accept(self) -> None:
        try:
            end, _ = self._listener.accept()
        except OSError:
            return
        end.setblocking(False)
        self._numbers += 1
        connection = _Connection(self._numbers, end)
        self._by_number[connection.number] = connection
        self._by_descriptor[end.fileno()] = connection
        self._send(OPEN, NUMBER.pack(connection.number))

    def _exchange(self, connection: _Connection, event: int) -> None:
        if event & select.POLLOUT:
            self._write(connection)
        if event & ~select.POLLOUT and connection.number in self._by_number:
            self._read(connection)

    def _read(self, connection: _Connection) -> None:
        try:
            data = connection.end.recv(min(_PIECE_BYTES, connection.window))
        except BlockingIOError:
            return
        except OSError:
            self._reset(connection)
            return
        number = NUMBER.pack(connection.number)
        if data:
            connection.window -= len(data)
            self._send(DATA, number + data)
            return
        connection.is_read = True
        self._send(END, number)
        if connection.is_over:
            self._drop(connection)

    def _write(self, connection: _Connection) -> None:
        try:
            while connection.waiting:
                sent = connection.end.send(connection.waiting[:_PIECE_BYTES])
                del connection.waiting[:sent]
                self._send(WINDOW, AMOUNT.pack(connection.number, sent))
        except BlockingIOError:
            return
        except OSError:
            self._reset(connection)
            return
        if connection.is_ended:
            # The proxy decides when a connection is over.
            self._drop(connection)

    def _reset(self, connection: _Connection) -> None:
        self._send(RESET, NUMBER.pack(connection.number))
        self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        del self._by_number[connection.number]
        del self._by_descriptor[connection.end.fileno()]
        connection.end.close()
