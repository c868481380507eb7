"""Sends a body to an address that a stranger has named, and can be led nowhere else.

The name is resolved once; all its addresses must pass; the connection goes to one of these, under
the name's certificate. The last gate is where a socket is made: it asks once more about the address
that is really about to be opened. No redirection is followed, no proxy and no cookie is taken from
anywhere, and the answer is short and soon, or none.
"""

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from potluck import __version__
from potluck.local import trust
from potluck.server.outward.addresses import Address
from potluck.server.outward.allowed import Allowed
from potluck.server.outward.answered import Answered, Unreachable
from potluck.server.outward.destination import (
    Destination,
    check_addresses,
    literal,
    read_destination,
)

MOST_ANSWER_BYTES = 64 * 1024
_MOST_ADDRESSES = 16
# A name server that never answers keeps a thread for seconds; it is one of these, and not one that
# the rest of the server needs.
_NAMES_AT_ONCE = 32

AddressInfo = tuple[int, int, int, str, tuple[str | int, ...]]


class Names(Protocol):
    """Who knows where a name leads."""

    async def addresses(self, host: str, port: int) -> Sequence[str]: ...


class Connector(Protocol):
    """Who opens connections: it makes the socket that is about to be connected to an address."""

    def open(self, address: Address, port: int) -> socket.socket: ...


class SystemNames:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_NAMES_AT_ONCE, "names")

    async def addresses(self, host: str, port: int) -> Sequence[str]:
        found = await asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
        return list(dict.fromkeys(str(each[4][0]) for each in found))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class SystemConnector:
    def open(self, address: Address, _port: int) -> socket.socket:
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        return socket.socket(family, socket.SOCK_STREAM | getattr(socket, "SOCK_NONBLOCK", 0))


class Outward:
    def __init__(
        self,
        allowed: Allowed,
        seconds: float = 5.0,
        names: Names | None = None,
        connector: Connector | None = None,
    ) -> None:
        self._allowed = allowed
        self._seconds = seconds
        self._names = names or SystemNames()
        self._connector = connector or SystemConnector()
        self._trust: ssl.SSLContext | None = None

    def check(self, url: str) -> None:
        read_destination(url, self._allowed)

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> Answered:
        destination = read_destination(url, self._allowed)
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._seconds):
                addresses = await self._resolve(destination)
                status, start = await self._post(destination, addresses, headers, body)
        except TimeoutError as error:
            raise Unreachable(f"No whole answer came within {self._seconds:g} s.") from error
        except aiohttp.ClientError as error:
            raise Unreachable(_sentence(error)) from error
        return Answered(status, start, time.monotonic() - began)

    async def _resolve(self, destination: Destination) -> list[Address]:
        """Where it is, each of these asked about."""
        if destination.address is not None:
            return [destination.address]
        # With a dot the name is whole: no search list makes another one of it.
        whole = destination.host if destination.is_trusted else f"{destination.host}."
        try:
            found = await self._names.addresses(whole, destination.port)
        except (OSError, UnicodeError) as error:
            raise Unreachable(f"There is no address for {destination.host}.") from error
        addresses = [literal(text) for text in found]
        check_addresses(destination, addresses, self._allowed)
        if not addresses:
            raise Unreachable(f"There is no address for {destination.host}.")
        return addresses[:_MOST_ADDRESSES]

    async def _post(
        self,
        destination: Destination,
        addresses: Sequence[Address],
        headers: Mapping[str, str],
        body: bytes,
    ) -> tuple[int, bytes]:
        connector = aiohttp.TCPConnector(
            resolver=_Pinned(addresses),
            use_dns_cache=False,
            force_close=True,
            ssl=self._context(),
            socket_factory=self._gate(destination, addresses),
        )
        async with (
            aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
                timeout=aiohttp.ClientTimeout(total=self._seconds),
                read_bufsize=MOST_ANSWER_BYTES,
                headers={
                    "Content-Type": "application/json",
                    "User-Agent": f"Potluck/{__version__}",
                    "Accept-Encoding": "identity",
                },
            ) as session,
            session.post(
                URL(destination.url, encoded=True),
                data=body,
                headers=headers,
                allow_redirects=False,
            ) as response,
        ):
            return response.status, await _start(response.content)

    def _gate(
        self, destination: Destination, addresses: Sequence[Address]
    ) -> Callable[[AddressInfo], socket.socket]:
        def open_socket(info: AddressInfo) -> socket.socket:
            address, port = literal(str(info[4][0])), int(info[4][1])
            assert address in addresses, "the connection goes where the name was seen to lead"
            assert port == destination.port
            check_addresses(destination, [address], self._allowed)
            return self._connector.open(address, port)

        return open_socket

    def _context(self) -> ssl.SSLContext:
        """Read when it is needed first: many servers never send anything."""
        if self._trust is None:
            self._trust = trust.context(None)
        return self._trust

    def close(self) -> None:
        if isinstance(self._names, SystemNames):
            self._names.close()


class _Pinned(AbstractResolver):
    """Answers with what was found and checked, whatever is asked."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, _family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET if address.version == 4 else socket.AF_INET6,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self._addresses
        ]

    async def close(self) -> None:
        pass


async def _start(content: aiohttp.StreamReader) -> bytes:
    """As much of an answer as anybody wants to see; the rest is left where it is."""
    data = b""
    while len(data) < MOST_ANSWER_BYTES and (
        piece := await content.read(MOST_ANSWER_BYTES - len(data))
    ):
        data += piece
    return data


def _sentence(error: aiohttp.ClientError) -> str:
    """For the owner of the address, and nothing about the server's own surroundings."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return "Its certificate is not one that systems believe."
        case aiohttp.ClientSSLError():
            return "It does not speak TLS as it should."
        case aiohttp.ClientConnectorError():
            return "Nothing accepts connections there."
        case aiohttp.ServerDisconnectedError():
            return "It hung up without an answer."
        case _:
            return "What it answered is not HTTP, or was cut off."
