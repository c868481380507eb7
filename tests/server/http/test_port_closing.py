"""A port that closes lets in what the system has accepted for it."""

import asyncio
import socket

from potluck.server.http.listener import TcpListener
from potluck.server.http.settings import HttpSettings


async def test_connections_that_wait_are_let_in_when_the_port_closes() -> None:
    connections: list[socket.socket] = []

    async def accept_connection(connection: socket.socket) -> None:
        connections.append(connection)

    server_socket = socket.create_server(("127.0.0.1", 0))
    listener = TcpListener(server_socket, HttpSettings(), accept_connection)
    listener.open()
    # More than are accepted at a time, and none of them yet: the loop has had no turn.
    clients = [socket.create_connection(server_socket.getsockname()) for _ in range(100)]
    listener.close()
    try:
        await asyncio.sleep(0)
        assert len(connections) == len(clients)
        assert server_socket.fileno() == -1
    finally:
        await listener.wait_closed()
        for connection in (*clients, *connections):
            connection.close()
