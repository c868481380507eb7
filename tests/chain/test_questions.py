"""Who makes the server ask a chain: a wallet may be a contract, a node key never is."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from potluck.wire import routes
from potluck.wire.signing.sign_in_answer import NODE_STATEMENT
from tests.processes import ServerProcess
from tests.wallets import Wallet

SOMEBODY = Wallet("somebody")


def test_a_chain_is_asked_for_wallets_alone(tmp_path: Path) -> None:
    connections: list[object] = []
    with (
        hanging_up(connections) as url,
        ServerProcess(tmp_path, 0, POTLUCK_CHAIN_RPC_URLS=f"1={url}") as server,
    ):
        claim_another_s(server, routes.NODE_LOGIN.path, statement=NODE_STATEMENT)
        assert not connections
        claim_another_s(server, routes.LOGIN.path)
        assert connections


def claim_another_s(server: ServerProcess, path: str, **changes: str) -> None:
    """Sign in as somebody with a signature that only a contract could find right."""
    api = server.client("")
    login = SOMEBODY.answer(api.post(routes.CHALLENGE.path, {}), **changes)
    login["signature"] = Wallet("another").sign_text(login["message"])
    assert api.post(path, login)["code"] == "not_signed_in"


@contextmanager
def hanging_up(connections: list[object]) -> Iterator[str]:
    """The address of an endpoint that answers nobody; who asked is kept."""
    with socket.create_server(("127.0.0.1", 0)) as endpoint:

        def listen() -> None:
            while True:
                try:
                    connection, peer = endpoint.accept()
                except OSError:
                    return  # closed
                connections.append(peer)
                connection.close()

        listener = threading.Thread(target=listen)
        listener.start()
        try:
            yield f"http://127.0.0.1:{endpoint.getsockname()[1]}"
        finally:
            endpoint.shutdown(socket.SHUT_RDWR)
            listener.join()
