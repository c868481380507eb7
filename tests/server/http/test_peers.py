"""Behind a proxy: only it may connect, and only it is believed about who asks."""

from pathlib import Path

import pytest

from potluck.model.error import BadSettings
from potluck.server.http.peers import Client, Peers
from tests.processes import ServerProcess, free_port
from tests.server.http.conftest import EDGE
from tests.server.http.raw_socket import Raw
from tests.server.http.test_slow_clients import GET

PROXIES = Peers(["10.0.0.0/8", "2001:db8::/32"])
PROXY = ("10.0.0.7", 4711)

FORWARDED = {
    "nothing": ([], "10.0.0.7"),
    "the client": (["203.0.113.9"], "203.0.113.9"),
    "what a client made up, and what the proxy saw": (["1.2.3.4, 203.0.113.9"], "203.0.113.9"),
    "the same in two headers": (["1.2.3.4", "203.0.113.9"], "203.0.113.9"),
    "two proxies in a row": (["203.0.113.9, 10.0.0.8"], "203.0.113.9"),
    "proxies only": (["10.0.0.9, 10.0.0.8"], "10.0.0.9"),
    "a client that is IPv6": (["2001:db9::1"], "2001:db9::1"),
    "IPv4 in the clothes of IPv6": (["::ffff:203.0.113.9"], "203.0.113.9"),
    "a word": (["unknown"], "10.0.0.7"),
    "a word before a proxy": (["unknown, 10.0.0.8"], "10.0.0.8"),
    "the client and its port": (["203.0.113.9:555"], "203.0.113.9"),
    "a client of IPv6 and its port": (["[2001:db9::1]:5"], "2001:db9::1"),
    "a client of IPv6 in brackets": (["[2001:db9::1]"], "2001:db9::1"),
    "two proxies and their ports": (["203.0.113.9:1, 10.0.0.8:2"], "203.0.113.9"),
    "noise": (["\xff\x00, ,,"], "10.0.0.7"),
}


@pytest.mark.parametrize("case", FORWARDED)
def test_the_nearest_address_that_is_no_proxy_s_is_the_client(case: str) -> None:
    forwarded, expected = FORWARDED[case]
    headers = [(b"x-forwarded-for", value.encode("latin-1")) for value in forwarded]
    client = PROXIES.client_behind(PROXY, headers)
    assert client is not None and client.address == expected


@pytest.mark.parametrize(
    ("forwarded", "scheme"),
    [([], "http"), (["https"], "https"), (["https, http"], "http"), (["x"], "http")],
)
def test_the_last_proxy_says_what_the_client_spoke(forwarded: list[str], scheme: str) -> None:
    headers = [(b"x-forwarded-proto", value.encode()) for value in forwarded]
    assert PROXIES.client_behind(PROXY, headers) == Client("10.0.0.7", scheme)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("address", "may"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("2001:db8::1", True),
        ("11.0.0.1", False),
        ("127.0.0.1", False),
        ("::1", False),
        ("", False),
    ],
)
def test_only_proxies_may_connect(address: str, may: bool) -> None:
    assert PROXIES.may_connect(address) is may


def test_without_trusted_proxies_forwarded_headers_are_ignored() -> None:
    untrusting = Peers([])
    assert untrusting.may_connect("203.0.113.9")
    assert untrusting.client_behind(PROXY, [(b"x-forwarded-for", b"1.2.3.4")]) is None


@pytest.mark.parametrize("text", ["10.0.0.1/8", "ten", "", "10.0.0.0/33", "0.0.0.0/0", "::/0"])
def test_invalid_networks_are_refused(text: str) -> None:
    with pytest.raises(BadSettings, match="--behind-proxy"):
        Peers([text])


def test_a_client_outside_the_trusted_proxies_is_disconnected(tmp_path: Path) -> None:
    patient = {name: "60" for name in EDGE if name.endswith("_SECONDS") and "PER" not in name}
    with (
        behind("10.0.0.0/8", tmp_path, **patient) as server,
        Raw(server, handshake=False) as stranger,
    ):
        assert stranger.closed_after() < 15, "before any of its times is over"


def test_a_proxy_is_served_and_believed(tmp_path: Path) -> None:
    few_requests = {"POTLUCK_ADDRESS_REQUESTS_PER_SECOND": "0.01", "POTLUCK_ADDRESS_BURST": "2"}
    with behind("10.0.0.0/8,127.0.0.1", tmp_path, **few_requests) as server:
        assert server.url.startswith("https://pool.example.org:")
        assert [status(server, "203.0.113.1") for _ in range(3)] == [200, 200, 429]
        assert status(server, "203.0.113.2") == 200, "another client has its own measure"
        assert status(server, "203.0.113.9, 203.0.113.1") == 429, "and none can be made up"


def behind(networks: str, directory: Path, **environment: str) -> ServerProcess:
    port = free_port()
    public = {"POTLUCK_PUBLIC_URL": f"https://pool.example.org:{port}"}
    proxied = {**EDGE, **public, "POTLUCK_BEHIND_PROXY": networks, **environment}
    return ServerProcess(directory, port, **proxied)


def status(server: ServerProcess, forwarded_for: str) -> int:
    with Raw(server, handshake=False) as proxy:
        proxy.send(GET[:-2] + f"X-Forwarded-For: {forwarded_for}\r\n\r\n".encode())
        return proxy.answer().status
