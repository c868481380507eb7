"""A small internet in network namespaces that the test made, without a route out.

Two namespaces with a link between them: `home` is the owner's machine, `world` has servers with
public-looking addresses, a name server, and canaries with addresses that no task may reach. Needs
root. As a program it serves the namespace `world`, and writes what reached each of its servers.
"""

import asyncio
import os
import shutil
import ssl
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TextIO

from tests.end_to_end.certificates import write_certificate
from tests.processes import await_true

REPOSITORY = Path(__file__).parents[3]
# In `world`: a server that tasks may reach, its name server, and the address of the owner's line.
SITE, NAME_SERVER, LINE = "151.101.0.223", "9.9.9.9", "151.101.64.9"
# In `world`: private in different ways. In `home`: its own addresses.
PRIVATE = ("10.66.77.2", "169.254.169.254", "100.64.0.1", "192.168.9.9", "172.16.5.5")
HOME, HOME_PUBLIC = "10.66.77.1", "185.199.108.1"
PORTS = (80, 443, 22, 8080)
DATAGRAM_PORT = 5000  # an echo; only programs with a raw network can ask for it
# A name has a list of answers: the first query gets the first, the last one stays.
NAMES = {
    "site.public.org": [[SITE]],
    "cdn.site.public.org": [[SITE]],
    "rebind.public.org": [[SITE], ["10.66.77.2"]],
    "mixed.public.org": [[SITE, "10.66.77.2"]],
    "loopback.public.org": [["127.0.0.1"]],
    "intranet.public.org": [["10.66.77.2"]],
    "metadata.public.org": [["169.254.169.254"]],
    "carrier.public.org": [["100.64.0.1"]],
    "line.public.org": [[LINE]],
    "home.public.org": [[HOME_PUBLIC]],
    "zero.public.org": [["0.0.0.0"]],
    "six.public.org": [["::1"]],
    "mapped.public.org": [["::ffff:10.66.77.2"]],
    "nat64.public.org": [["64:ff9b::a42:4d02"]],
}
BODY = b"the page of the site"


class Internet:
    """The two namespaces, and the servers in them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.home = f"potluck-home-{os.getpid()}"
        self.world = f"potluck-world-{os.getpid()}"

    @property
    def entering(self) -> list[str]:
        """Words before a command that run it at home."""
        return ["ip", "netns", "exec", self.home]

    def hits(self) -> list[str]:
        """What canaries and servers have received: `place address:port first-line`."""
        lines = []
        for place in ("home", "world"):
            lines += (self.directory / f"{place}.hits").read_text().splitlines()
        return lines

    def canaries(self) -> list[str]:
        """What reached a place where no task may come."""
        return [line for line in self.hits() if f" {SITE}:" not in line]

    def wait_for(self, text: str) -> None:
        await_true(lambda: any(text in line for line in self.hits()), f"{text} is heard")


@contextmanager
def small_internet(directory: Path) -> Iterator[Internet]:
    internet = Internet(directory)
    ends_at = datetime.now(UTC) + timedelta(days=1)
    paths = directory / "certificate.pem", directory / "key.pem"
    write_certificate(*paths, ends_at, "site.public.org")
    resolver = Path("/etc/netns") / internet.home
    with ExitStack() as stack:
        for name in (internet.home, internet.world):
            _ip("netns", "add", name)
            stack.callback(_ip, "netns", "delete", name)
        resolver.mkdir(parents=True)
        stack.callback(shutil.rmtree, resolver)
        (resolver / "resolv.conf").write_text(f"nameserver {NAME_SERVER}\noptions timeout:1\n")
        _connect(internet)
        for place, netns in (("home", internet.home), ("world", internet.world)):
            stack.enter_context(_served(directory, place, netns))
        yield internet


def _connect(internet: Internet) -> None:
    home, world = internet.home, internet.world
    link = ("link", "add", "out", "netns", home, "type", "veth")
    _ip(*link, "peer", "name", "in", "netns", world)
    for netns, interface in ((home, "out"), (world, "in")):
        _ip("-n", netns, "link", "set", "lo", "up")
        _ip("-n", netns, "link", "set", interface, "up")
    for address in (f"{HOME}/24", f"{HOME_PUBLIC}/32"):
        _ip("-n", home, "address", "add", address, "dev", "out")
    _ip("-n", world, "address", "add", f"{PRIVATE[0]}/24", "dev", "in")
    for address in (SITE, NAME_SERVER, LINE, *PRIVATE[1:]):
        _ip("-n", world, "address", "add", f"{address}/32", "dev", "in")
    _ip("-n", home, "route", "add", "default", "via", PRIVATE[0])
    _ip("-n", world, "route", "add", f"{HOME_PUBLIC}/32", "via", HOME)


@contextmanager
def _served(directory: Path, place: str, netns: str) -> Iterator[None]:
    (directory / f"{place}.hits").touch()
    process = subprocess.Popen(
        ["ip", "netns", "exec", netns, sys.executable, "-m", __name__, place, str(directory)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        yield
    finally:
        process.kill()
        process.communicate()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class _Servers:
    """Listens on every address and port of its place."""

    def __init__(self, place: str, directory: Path) -> None:
        self._place = place
        self._hits = (directory / f"{place}.hits").open("a", buffering=1)
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(directory / "certificate.pem", directory / "key.pem")
        self._answers = {name: list(lists) for name, lists in NAMES.items()}

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        # Datagrams and connections to any address of the namespace.
        for port in PORTS:
            is_tls = self._place == "world" and port == 443
            await asyncio.start_server(
                self._accept, "0.0.0.0", port, ssl=self._tls if is_tls else None
            )
        world = (SITE, LINE, *PRIVATE)
        for address in (HOME, HOME_PUBLIC, "127.0.0.1") if self._place == "home" else world:
            name = f"{self._place} {address}:{DATAGRAM_PORT}"
            await loop.create_datagram_endpoint(
                partial(_Echo, name, self._hits), (address, DATAGRAM_PORT)
            )
        if self._place == "home":
            await asyncio.start_server(self._accept, "::1", PORTS[0])
        else:
            await loop.create_datagram_endpoint(
                lambda: _NameServer(self._answers), (NAME_SERVER, 53)
            )
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = writer.get_extra_info("sockname")[:2]
        # Connections count, even if nothing is sent.
        self._hits.write(f"{self._place} {host}:{port} connected\n")
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await reader.readuntil(b"\r\n\r\n")
            line = head.split(b"\r\n")[0].decode(errors="replace")
            self._hits.write(f"{self._place} {host}:{port} {line}\n")
            writer.write(await self._answer(line, head, reader))
            await writer.drain()
        writer.close()

    async def _answer(self, line: str, head: bytes, reader: asyncio.StreamReader) -> bytes:
        path = line.split(" ")[1]
        if path.startswith("/to/"):
            return (
                f"HTTP/1.1 302 Found\r\nLocation: {path.removeprefix('/to/')}\r\n"
                "Content-Length: 0\r\n\r\n"
            ).encode()
        body = BODY
        if path.startswith("/bytes/"):
            body = bytes(int(path.removeprefix("/bytes/")))
        elif line.startswith("POST"):
            size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            body = await reader.readexactly(size)
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body


class _Echo(asyncio.DatagramProtocol):
    """Notes each datagram, and sends it back."""

    def __init__(self, name: str, hits: TextIO) -> None:
        self._name = name
        self._hits = hits

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, sender: object) -> None:
        self._hits.write(f"{self._name} datagram\n")
        self._transport.sendto(data, sender)  # type: ignore[attr-defined]


class _NameServer(asyncio.DatagramProtocol):
    """Answers queries for addresses, and never with a time for which they could be kept."""

    def __init__(self, addresses: dict[str, list[list[str]]]) -> None:
        self._answers = addresses

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, sender: object) -> None:
        labels, position = [], 12
        while data[position]:
            labels.append(data[position + 1 : position + 1 + data[position]].decode())
            position += 1 + data[position]
        question = data[12 : position + 5]
        kind = struct.unpack(">H", data[position + 1 : position + 3])[0]
        addresses = self._addresses(".".join(labels).lower(), is_next=kind == 1)
        requested = [a for a in addresses or () if (":" in a) == (kind == 28)]
        records = b"".join(_record(address) for address in requested)
        code = 0x8180 if addresses is not None else 0x8183
        head = struct.pack(">HHHHHH", *struct.unpack(">H", data[:2]), code, 1, len(requested), 0, 0)
        self._transport.sendto(head + question + records, sender)  # type: ignore[attr-defined]

    def _addresses(self, name: str, is_next: bool) -> list[str] | None:
        """A lookup asks for A and AAAA; those for A count."""
        lists = self._answers.get(name)
        if lists is None:
            return None
        return lists.pop(0) if is_next and len(lists) > 1 else lists[0]


def _record(address: str) -> bytes:
    packed = ip_address(address).packed
    kind = 1 if len(packed) == 4 else 28
    return b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(packed)) + packed


if __name__ == "__main__":
    asyncio.run(_Servers(sys.argv[1], Path(sys.argv[2])).serve())
