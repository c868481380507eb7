"""Nobody takes all the room: connections are counted, in all and by address."""

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from potluck.server.http.listener import ConnectionBudget
from potluck.server.http.settings import HttpSettings
from tests.processes import ServerProcess, await_true
from tests.server.http.conftest import EDGE
from tests.server.http.raw_socket import Raw
from tests.server.http.test_peers import behind, status
from tests.server.http.test_slow_clients import GET, HALF_HEAD, healthy

ROOM = {"POTLUCK_MAX_CONNECTIONS": "40", "POTLUCK_MAX_CONNECTIONS_PER_ADDRESS": "15"}
# All of 127.0.0.0/8 is this machine: addresses enough for a crowd.
STRANGERS = [f"127.0.0.{number}" for number in range(2, 9)]
# Those who are in stay for as long as a test lasts.
SLOW = {"POTLUCK_HEADER_SECONDS": "60", "POTLUCK_HANDSHAKE_SECONDS": "60"}


@pytest.fixture(scope="module", params=["plain", "auto"])
def narrow(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    tls = {} if request.param == "plain" else {"POTLUCK_TLS": request.param}
    directory = tmp_path_factory.mktemp("narrow")
    with ServerProcess(directory, 0, **{**EDGE, **SLOW, **ROOM, **tls}) as server:
        yield server


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def crowd(stack: ExitStack, server: ServerProcess, address: str, size: int) -> list[socket.socket]:
    """They connect and say half of what there is to say."""
    half = b"\x16\x03" if server.url.startswith("https") else HALF_HEAD
    place = ("127.0.0.1", server.port)
    connections = []
    for _ in range(size):
        connection = stack.enter_context(socket.create_connection(place, 10, (address, 0)))
        connection.setblocking(False)
        try:
            connection.sendall(half)
        except OSError:
            continue
        connections.append(connection)
    return connections


def is_open(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def number_of_open(connections: list[socket.socket]) -> int:
    return sum(map(is_open, connections))


def test_one_address_does_not_block_the_others(narrow: ServerProcess, stack: ExitStack) -> None:
    for _ in range(3):  # they come again as often as they are turned away
        strangers = crowd(stack, narrow, STRANGERS[0], 60)
        assert healthy(narrow) < 3, "somebody from elsewhere is served"
    await_true(lambda: number_of_open(strangers) == 0, "the last ones are turned away")


def test_an_address_has_its_room_and_gets_it_back(narrow: ServerProcess) -> None:
    for _ in range(3):  # what the last crowd left is seen within a moment
        await_true(lambda: let_in(narrow, STRANGERS[1], 30) == 15, "there is room again")


def let_in(server: ServerProcess, address: str, size: int) -> int:
    with ExitStack() as stack:
        strangers = crowd(stack, server, address, size)
        assert healthy(server) < 3  # who came later was served, so all of them were looked at
        return number_of_open(strangers)


def test_all_together_have_their_room_too(narrow: ServerProcess, stack: ExitStack) -> None:
    await_true(lambda: not number_inside(narrow), "those of the test before are gone")
    strangers = [
        connection for address in STRANGERS[2:] for connection in crowd(stack, narrow, address, 14)
    ]
    await_true(lambda: number_of_open(strangers) == 40, "the first are in")
    assert not is_served(narrow, "127.0.0.1")
    stack.close()
    await_true(lambda: is_served(narrow, "127.0.0.1"), "there is room again")
    assert "too many" in (narrow.directory / "server.log").read_text()


def number_inside(server: ServerProcess) -> int:
    """Whoever is connected, or has hung up without the server having noticed."""
    connections = psutil.Process(server.process.pid).net_connections("tcp")
    return sum(
        connection.laddr.port == server.port and bool(connection.raddr)
        for connection in connections
    )


def is_served(server: ServerProcess, address: str) -> bool:
    try:
        with Raw(server, source=address) as client:
            client.send(GET)
            return client.answer().status == 200
    except (OSError, AssertionError):
        return False


def test_a_proxy_is_not_counted_by_its_address(tmp_path: Path, stack: ExitStack) -> None:
    with behind("127.0.0.1", tmp_path, **SLOW, **ROOM) as server:
        server.url = f"http://127.0.0.1:{server.port}"
        proxied = crowd(stack, server, "127.0.0.1", 30)
        assert status(server, "203.0.113.1") == 200
        assert number_of_open(proxied) == 30


@pytest.mark.parametrize(
    ("max_connections", "files", "most"),
    [(10_000, 256, 204), (10_000, 2**20, 10_000), (50, 1024, 50)],
)
def test_files_are_left_for_the_rest(max_connections: int, files: int, most: int) -> None:
    room = ConnectionBudget(HttpSettings(max_connections=max_connections), files)
    assert sum(room.enter(f"198.51.{n >> 8}.{n & 255}") is not None for n in range(20_000)) == most


def test_a_network_of_ipv6_has_its_room_too() -> None:
    room = ConnectionBudget(
        HttpSettings(max_connections=1_000, max_connections_per_address=10), 2**20
    )
    assert sum(room.enter(f"2001:db8:1:2::{n}") is not None for n in range(100)) == 10
    assert sum(room.enter(f"2001:db8:1:{n:x}::1") is not None for n in range(16, 600)) == 150
    assert room.enter("2001:db8:2::1") is not None


def test_a_server_raises_its_limit_of_open_files(tmp_path: Path) -> None:
    """Shells give 1,024, and let those who ask have many more."""
    usual, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(usual, 512), hard_limit))
    try:
        server = ServerProcess(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (usual, hard_limit))
    with server:
        file_limit = psutil.Process(server.process.pid).rlimit(psutil.RLIMIT_NOFILE)
        assert file_limit == (hard_limit, hard_limit)
