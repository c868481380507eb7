"""The proxy lets the package index through and nothing else, within its limits."""

import asyncio
import contextlib
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from potluck.model.error import BadSettings
from potluck.provider.dependencies.package_index import PackageIndex, parse_hosts
from potluck.provider.egress.egress import Egress
from potluck.provider.egress.guard import EgressRules
from potluck.provider.egress.proxy import Proxy, ProxyLimits
from potluck.provider.egress.request import RequestRefused, read_request
from potluck.provider.egress.serving_socket import leftover_directories, socket_prefix
from potluck.provider.server.throttle import Throttle
from tests.provider.egress.proxies import ScriptedNames, proxy_to_index


class Upstream:
    """A server that keeps what it is sent, answers with `answer`, and hangs up when told to."""

    def __init__(self, answer: bytes, hangs_up: bool = True):
        self.heads: list[bytes] = []
        self.answer = answer
        self.hangs_up = hangs_up
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(self.answer)
            await writer.drain()
            if not self.hangs_up:
                await reader.read()
        writer.close()


@contextlib.asynccontextmanager
async def listening(upstream: Upstream) -> AsyncIterator[Upstream]:
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0)
    upstream.port = server.sockets[0].getsockname()[1]
    try:
        yield upstream
    finally:
        server.close()


Ask = Callable[..., Awaitable[bytes]]


@contextlib.asynccontextmanager
async def serving(proxy: Proxy, path: Path) -> AsyncIterator[Ask]:
    """Yields what sends bytes and returns all that comes back until the proxy hangs up."""
    async with proxy.serving(path) as socket_path:

        async def ask(*parts: bytes) -> bytes:
            reader, writer = await asyncio.open_unix_connection(str(socket_path))
            for part in parts:
                writer.write(part)
            try:
                async with asyncio.timeout(10):
                    return await reader.read()
            finally:
                writer.close()

        yield ask


def proxy_to(upstream: Upstream, limits: ProxyLimits | None = None) -> Proxy:
    return proxy_to_index(("127.0.0.1", upstream.port), limits)


ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


async def test_a_get_reaches_the_index_as_the_host_that_was_checked(tmp_path: Path) -> None:
    async with listening(Upstream(ANSWER)) as index, serving(proxy_to(index), tmp_path) as ask:
        target = f"http://127.0.0.1:{index.port}/simple/six/?x=1"
        head = f"GET {target} HTTP/1.1\r\nHost: other.example\r\nProxy-Authorization: x\r\nA: b\r\n"
        response = await ask(head.encode() + b"\r\n")
    assert response == ANSWER
    lines = index.heads[0].decode().split("\r\n")
    assert lines[0] == "GET /simple/six/?x=1 HTTP/1.1"
    assert f"Host: 127.0.0.1:{index.port}" in lines
    assert "A: b" in lines
    assert not any("other.example" in line or "Proxy" in line for line in lines)


async def test_a_tunnel_carries_both_directions(tmp_path: Path) -> None:
    async with listening(Upstream(b"pong")) as index, serving(proxy_to(index), tmp_path) as ask:
        head = f"CONNECT 127.0.0.1:{index.port} HTTP/1.1\r\n\r\n".encode()
        response = await ask(head, b"ping\r\n\r\n")
    assert response == b"HTTP/1.1 200 Connection established\r\n\r\npong"
    assert index.heads == [b"ping\r\n\r\n"]


@pytest.mark.parametrize("line", ["CONNECT 127.0.0.1:{}", "GET http://127.0.0.1:{}/x"])
async def test_another_port_is_refused_and_never_contacted(tmp_path: Path, line: str) -> None:
    async with listening(Upstream(ANSWER)) as index, listening(Upstream(ANSWER)) as other:
        proxy = proxy_to(index)
        async with serving(proxy, tmp_path) as ask:
            response = await ask(f"{line.format(other.port)} HTTP/1.1\r\n\r\n".encode())
        assert response.startswith(b"HTTP/1.1 403 ")
        assert other.heads == [] and index.heads == []
        assert proxy.refused == [f"127.0.0.1:{other.port}"]
        assert proxy.not_public == []


async def test_an_allowed_host_that_is_not_public_is_refused_as_such(tmp_path: Path) -> None:
    async with listening(Upstream(ANSWER)) as index:
        egress = Egress(tmp_path, Throttle(None))
        proxy = egress.make_proxy("attempt", EgressRules(("*:1",)), ProxyLimits())
        async with serving(proxy, tmp_path) as ask:
            response = await ask(b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n")
            await ask(f"CONNECT 127.0.0.1:{index.port} HTTP/1.1\r\n\r\n".encode())
        assert response.startswith(b"HTTP/1.1 403 ")
        assert (proxy.not_public, proxy.refused) == (["127.0.0.1:1"], [f"127.0.0.1:{index.port}"])


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"CONNECT localhost.evil.example:443 HTTP/1.1\r\n\r\n", 403),
        (b"GET http://127.0.0.1@evil.example/ HTTP/1.1\r\n\r\n", 400),  # a name before the host
        (b"CONNECT 127.0.0.1:http HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT 127.0.0.1 HTTP/1.1\r\n\r\n", 400),
        (b"GET http://[::1/ HTTP/1.1\r\n\r\n", 400),
        (b"GET /simple/ HTTP/1.1\r\n\r\n", 405),  # the proxy has no pages of its own
        (b"GET ftp://127.0.0.1/x HTTP/1.1\r\n\r\n", 405),
        (b"POST http://127.0.0.1/x HTTP/1.1\r\n\r\n", 405),  # an index is only read
        (b"TRACE http://127.0.0.1/x HTTP/1.1\r\n\r\n", 405),
        (b"GET http://127.0.0.1/x HTTP/1.1\r\nA: b\nHost: evil\r\n\r\n", 400),  # a smuggled line
        (b"nonsense\r\n\r\n", 400),
        (b"GET http://127.0.0.1/ HTTP/1.1\r\nX: " + b"a" * 20_000 + b"\r\n\r\n", 431),
        (b"a" * 20_000, 431),
    ],
)
async def test_requests_for_other_hosts_get_an_error_response(
    tmp_path: Path, head: bytes, status: int
) -> None:
    async with listening(Upstream(ANSWER)) as index, serving(proxy_to(index), tmp_path) as ask:
        response = await ask(head)
    assert response.startswith(f"HTTP/1.1 {status} ".encode())
    assert index.heads == []


async def test_an_index_that_does_not_answer_is_a_bad_gateway(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        proxy = proxy_to_index(("127.0.0.1", port))
        async with serving(proxy, tmp_path) as ask:
            response = await ask(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
    assert response.startswith(b"HTTP/1.1 502 ") and b"does not answer." in response
    assert proxy.unreachable == [f"127.0.0.1:{port}"]


async def test_a_name_without_an_address_is_said_to_have_none(tmp_path: Path) -> None:
    rules = EgressRules(hosts=("nowhere.example.org:443",))
    proxy = Egress(tmp_path, Throttle(), ScriptedNames()).make_proxy(
        "attempt", rules, ProxyLimits()
    )
    async with serving(proxy, tmp_path) as ask:
        response = await ask(b"CONNECT nowhere.example.org:443 HTTP/1.1\r\n\r\n")
    assert b"nowhere.example.org:443 has no address." in response
    assert proxy.unreachable == ["nowhere.example.org:443"]


async def test_connections_over_the_limit_are_refused(tmp_path: Path) -> None:
    quiet = Upstream(b"", hangs_up=False)
    limits = ProxyLimits(connections=2)
    async with listening(quiet), proxy_to(quiet, limits).serving(tmp_path) as path:
        connections = [await asyncio.open_unix_connection(str(path)) for _ in "ab"]
        for reader, writer in connections:
            writer.write(f"CONNECT 127.0.0.1:{quiet.port} HTTP/1.1\r\n\r\n".encode())
            assert b" 200 " in await reader.readline()
        further, last = await asyncio.open_unix_connection(str(path))
        assert (await further.read()).startswith(b"HTTP/1.1 503 ")
        last.close()
        for _, writer in connections:
            writer.close()


async def test_the_bytes_in_total_are_limited(tmp_path: Path) -> None:
    flood = Upstream(b"x" * 1_000_000, hangs_up=False)
    async with listening(flood):
        proxy = proxy_to(flood, ProxyLimits(total_bytes=100_000))
        async with serving(proxy, tmp_path) as ask:
            get = f"GET http://127.0.0.1:{flood.port}/ HTTP/1.1\r\n\r\n".encode()
            assert len(await ask(get)) < 400_000
            assert (await ask(get)).startswith(b"HTTP/1.1 403 ")
        assert proxy.budget.is_exhausted


async def test_silence_ends_a_connection(tmp_path: Path) -> None:
    quiet = Upstream(b"", hangs_up=False)
    limits = ProxyLimits(idle_seconds=0.2, head_seconds=0.2)
    async with listening(quiet), serving(proxy_to(quiet, limits), tmp_path) as ask:
        assert await ask(b"GET http://half-a-head") == b""
        tunnel = await ask(f"CONNECT 127.0.0.1:{quiet.port} HTTP/1.1\r\n\r\n".encode())
        assert tunnel.endswith(b"established\r\n\r\n")


async def test_a_head_that_drips_in_ends_after_its_time(tmp_path: Path) -> None:
    """Each byte would restart a limit of idle time."""
    limits = ProxyLimits(head_seconds=0.5)
    async with proxy_to_index(("a.org", 80), limits).serving(tmp_path) as path:
        reader, writer = await asyncio.open_unix_connection(str(path))
        started = time.monotonic()
        with contextlib.suppress(OSError):
            while not reader.at_eof() and time.monotonic() - started < 10:
                writer.write(b"G")
                await writer.drain()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(1), 0.05)
        assert time.monotonic() - started < 5
        writer.close()


async def test_the_end_of_serving_ends_every_connection(tmp_path: Path) -> None:
    quiet = Upstream(b"", hangs_up=False)
    async with listening(quiet), contextlib.AsyncExitStack() as stack:
        path = await stack.enter_async_context(proxy_to(quiet).serving(tmp_path))
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(f"CONNECT 127.0.0.1:{quiet.port} HTTP/1.1\r\n\r\n".encode())
        assert b" 200 " in await reader.readline()
        await stack.aclose()
        assert await reader.read() == b"\r\n"
        writer.close()


def test_a_request_without_a_path_asks_for_the_root() -> None:
    request = read_request(b"GET http://index.example HTTP/1.1\r\n\r\n")
    assert request.endpoint == ("index.example", 80)
    assert request.onward.startswith(b"GET / HTTP/1.1\r\nHost: index.example\r\n")


def test_names_are_compared_without_case_and_final_dot() -> None:
    assert read_request(b"CONNECT PyPI.org.:443 HTTP/1.1\r\n\r\n").endpoint == ("pypi.org", 443)
    with pytest.raises(RequestRefused):
        read_request(b"CONNECT :443 HTTP/1.1\r\n\r\n")


def test_an_index_knows_its_endpoints() -> None:
    assert PackageIndex().endpoints() == {("pypi.org", 443), ("files.pythonhosted.org", 443)}
    local = PackageIndex("http://127.0.0.1:3141/root", hosts=("files.example", "cdn.example:81"))
    assert local.endpoints() == {("127.0.0.1", 3141), ("files.example", 80), ("cdn.example", 81)}


def test_further_hosts_are_listed_with_commas() -> None:
    assert parse_hosts(" files.example, cdn.example:81,") == ("files.example", "cdn.example:81")
    assert parse_hosts("") == ()


@pytest.mark.parametrize("host", ["https://files.example", "files.example/simple", ":81"])
def test_a_nonsensical_host_is_refused_at_once(host: str) -> None:
    with pytest.raises(BadSettings) as error_info:
        PackageIndex(hosts=(host,))
    assert "--index-hosts" in error_info.value.hint


@pytest.mark.parametrize(
    "url", ["file:///simple", "pypi.org", "https://", "https://x:y@host/", "http://h:port/"]
)
def test_a_nonsensical_index_is_refused(url: str) -> None:
    with pytest.raises(BadSettings) as error_info:
        PackageIndex(url)
    assert "y@" not in error_info.value.detail and "--index-url" in error_info.value.hint


async def test_foreign_temporary_files_are_left_alone(tmp_path: Path) -> None:
    """A link with the name of an old socket's directory, to one that must not be touched."""
    precious = tmp_path / "precious"
    precious.mkdir(mode=0o700)
    (precious / "file").touch(mode=0o400)
    link = Path(tempfile.gettempdir()) / f"{socket_prefix(tmp_path)}by-a-stranger"
    link.symlink_to(precious)
    own_directory = Path(tempfile.mkdtemp(prefix=socket_prefix(tmp_path)))
    try:
        Egress(tmp_path, Throttle()).reap()
        assert link.is_symlink(), "it is not ours to remove"
        assert not own_directory.exists() and leftover_directories(tmp_path) == [link]
    finally:
        link.unlink(missing_ok=True)
    assert (precious / "file").stat().st_mode & 0o777 == 0o400
