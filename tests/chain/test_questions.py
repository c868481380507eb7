"""Who makes the server ask a chain: a wallet may be a contract, a node key never is."""

import socket
from pathlib import Path

import pytest

from potluck.wire import routes
from potluck.wire.own_origin import NODE_STATEMENT
from tests.processes import ServerProcess
from tests.wallets import Wallet

SOMEBODY = Wallet("somebody")


@pytest.mark.parametrize(
    ("path", "changes", "is_asked"),
    [
        (routes.LOGIN.path, {}, True),
        (routes.NODE_LOGIN.path, {"statement": NODE_STATEMENT}, False),
    ],
)
def test_a_chain_is_asked_for_wallets_alone(
    path: str, changes: dict[str, str], is_asked: bool, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as endpoint:
        url = f"http://127.0.0.1:{endpoint.getsockname()[1]}"
        with ServerProcess(tmp_path, 0, POTLUCK_CHAIN_RPC_URLS=f"1={url}") as server:
            api = server.client("")
            said = SOMEBODY.answer(api.post(routes.CHALLENGE.path, {}), **changes)
            said["signature"] = Wallet("another").sign_text(said["message"])
            assert api.post(path, said)["code"] == "not_signed_in"
        assert was_called(endpoint) is is_asked


def was_called(endpoint: socket.socket) -> bool:
    endpoint.setblocking(False)
    try:
        endpoint.accept()[0].close()
    except BlockingIOError:
        return False
    return True
