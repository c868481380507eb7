"""Sends a body to an address that a stranger has named, and can be led nowhere else.

The name is resolved once; all its addresses must pass; the connection goes to one of these, under
the name's certificate. The last gate is where a socket is made: it asks once more about the address
that is really about to be opened. No redirection is followed, no proxy and no cookie is taken from
anywhere, and the answer is short and soon, or none.
"""

import asyncio
import socket
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from ipaddress import ip_address
from typing import Any, Protocol

from msgspec.structs import replace

from potluck.server.egress.addresses import Address
from potluck.server.egress.allow_list import Allowed
from potluck.server.egress.destination import Destination, check_addresses, read_destination
from potluck.server.egress.types import Busy, EgressResponse, Unreachable

_MOST_ADDRESSES = 16
# A name server that never answers keeps a thread for longer than anybody waits for it. It is one of
# these, and not one that the rest of the server needs; and of one account it is one of a few.
NAMES_AT_ONCE = 64
NAMES_OF_ONE = 8


class Resolver(Protocol):
    """Who knows where a name leads."""

    async def addresses(self, host: str, port: int, whose: str) -> Sequence[str]:
        """Raises Busy when too many are being looked up, or too many for this one account."""


class Connector(Protocol):
    """Who opens connections: it makes the socket that is about to be connected to an address."""

    def open(self, address: Address, port: int) -> socket.socket: ...


class SystemNames:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(NAMES_AT_ONCE, "names")
        self._looking: list[tuple[str, Future[Any]]] = []

    async def addresses(self, host: str, port: int, whose: str) -> Sequence[str]:
        # What was called off goes on in its thread: it counts until it is over.
        self._looking = [each for each in self._looking if not each[1].done()]
        of_one = sum(each[0] == whose for each in self._looking)
        if len(self._looking) >= NAMES_AT_ONCE or of_one >= NAMES_OF_ONE:
            raise Busy
        looking = self._threads.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        self._looking.append((whose, looking))
        # Shielded: what is called off would be done by its own account, and still hold its thread.
        found = await asyncio.shield(asyncio.wrap_future(looking))
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
        names: Resolver | None = None,
        connector: Connector | None = None,
    ) -> None:
        self._allowed = allowed
        self._seconds = seconds
        self._names = names or SystemNames()
        self._connector = connector or SystemConnector()

    def check(self, url: str) -> str:
        return read_destination(url, self._allowed).host

    async def send(
        self, url: str, headers: Mapping[str, str], body: bytes, whose: str
    ) -> EgressResponse:
        from potluck.server.egress.post import post  # large, and many servers never send anything

        destination = read_destination(url, self._allowed)
        began = time.monotonic()

        def open_socket(address: Address, port: int) -> socket.socket:
            assert address in addresses, "the connection goes where the name was seen to lead"
            assert port == destination.port
            check_addresses(destination, [address], self._allowed)
            return self._connector.open(address, port)

        try:
            async with asyncio.timeout(self._seconds):
                addresses = await self._resolve(destination, whose)
                answered = await post(destination, addresses, open_socket, headers, body)
        except TimeoutError as error:
            raise Unreachable(f"No whole answer came within {self._seconds:g} s.") from error
        return replace(answered, seconds=time.monotonic() - began)

    async def _resolve(self, destination: Destination, whose: str) -> list[Address]:
        """Where it is, each of these asked about."""
        if destination.address is not None:
            return [destination.address]
        # With a dot the name is whole: no search list makes another one of it.
        whole = destination.host if destination.is_trusted else f"{destination.host}."
        try:
            found = await self._names.addresses(whole, destination.port, whose)
        except (OSError, UnicodeError) as error:
            raise Unreachable(f"There is no address for {destination.host}.") from error
        addresses = [ip_address(text) for text in found]
        check_addresses(destination, addresses, self._allowed)
        if not addresses:
            raise Unreachable(f"There is no address for {destination.host}.")
        return addresses[:_MOST_ADDRESSES]

    def close(self) -> None:
        if isinstance(self._names, SystemNames):
            self._names.close()
