"""A port that closes lets in what the system has accepted for it."""

import asyncio
import socket

from potluck.server.http.listener import TcpListener
from potluck.server.http.settings import HttpSettings


async def test_connections_that_wait_are_let_in_when_the_port_closes() -> None:
    came: list[socket.socket] = []

    async def accept_connection(connection: socket.socket) -> None:
        came.append(connection)

    listening = socket.create_server(("127.0.0.1", 0))
    listener = TcpListener(listening, HttpSettings(), accept_connection)
    listener.open()
    # More than are accepted at a time, and none of them yet: the loop has had no turn.
    clients = [socket.create_connection(listening.getsockname()) for _ in range(100)]
    listener.close()
    try:
        await asyncio.sleep(0)
        assert len(came) == len(clients)
        assert listening.fileno() == -1
    finally:
        await listener.wait_closed()
        for each in (*clients, *came):
            each.close()
