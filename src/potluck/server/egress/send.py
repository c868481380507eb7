"""Sends a body to a URL that a user has chosen, safe against SSRF.

The name is resolved once, and all its addresses must pass. The connection goes to one of these, and
the certificate must match the name. The address is checked again when the socket is opened.
Redirects, proxies and cookies are not used, and the size and time of the response are limited.
"""

import asyncio
import socket
import time
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Protocol

from msgspec.structs import replace

from potluck.local.network.name_lookup import Resolver, SystemNames
from potluck.model.network.public_address import Address
from potluck.server.egress.allow_list import Allowed
from potluck.server.egress.destination import Destination, check_addresses, read_destination
from potluck.server.egress.types import EgressResponse, Unreachable

_MOST_ADDRESSES = 16


class Connector(Protocol):
    """Makes the socket for a connection to an address."""

    def open(self, address: Address, port: int) -> socket.socket: ...


class SystemConnector:
    def open(self, address: Address, _port: int) -> socket.socket:
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        return socket.socket(family, socket.SOCK_STREAM | getattr(socket, "SOCK_NONBLOCK", 0))


class GuardedSender:
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
        from potluck.server.egress.post import (
            post,
        )  # a large import, and many servers have no webhooks

        destination = read_destination(url, self._allowed)
        began = time.monotonic()

        def open_socket(address: Address, port: int) -> socket.socket:
            assert address in addresses, "only checked addresses are opened"
            assert port == destination.port
            check_addresses(destination, [address], self._allowed)
            return self._connector.open(address, port)

        try:
            async with asyncio.timeout(self._seconds):
                addresses = await self._resolve(destination, whose)
                answered = await post(destination, addresses, open_socket, headers, body)
        except TimeoutError as error:
            raise Unreachable(f"No complete response within {self._seconds:g} s.") from error
        return replace(answered, seconds=time.monotonic() - began)

    async def _resolve(self, destination: Destination, whose: str) -> list[Address]:
        """The checked addresses of the destination."""
        if destination.address is not None:
            return [destination.address]
        # The final dot keeps the resolver's search list from extending the name.
        name = destination.host if destination.is_trusted else f"{destination.host}."
        try:
            found = await self._names.addresses(name, destination.port, whose)
        except (OSError, UnicodeError) as error:
            raise Unreachable(f"{destination.host} has no address.") from error
        addresses = [ip_address(text) for text in found]
        check_addresses(destination, addresses, self._allowed)
        if not addresses:
            raise Unreachable(f"{destination.host} has no address.")
        return addresses[:_MOST_ADDRESSES]

    def close(self) -> None:
        if isinstance(self._names, SystemNames):
            self._names.close()
