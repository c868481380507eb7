"""Decides where a sandbox may connect, and opens the connection.

A host must be one that the task asked for. Its name is resolved here, every address must be public
and not this machine's own, and the connection goes to an address that was checked: a name that
resolves differently the next time changes nothing. Redirects come back as new requests. Only the
owner's package index may have other addresses, and only for installations.
"""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from ipaddress import ip_address

import psutil
from msgspec import Struct

from potluck.local.network.name_lookup import Busy, Resolver
from potluck.model.error import InvalidInput
from potluck.model.network.patterns import includes
from potluck.model.network.public_address import (
    Address,
    check_public_name,
    own_address_check,
    parse_host,
    why_not_public,
)
from potluck.provider.egress.request import (
    METHODS,
    READING,
    AddressRefused,
    Endpoint,
    RequestRefused,
)

_MOST_ADDRESSES = 4
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class HostUnreachable(Exception):
    """The host was allowed, but there is no connection. The text follows the name of the host."""


class EgressRules(Struct, frozen=True):
    """Where one sandbox may connect."""

    hosts: tuple[str, ...] = ()  # patterns, as in model/network/patterns.py
    trusted: frozenset[Endpoint] = frozenset()  # of the package index; their addresses may be any
    refusal: str = "The task did not ask for this host."

    @property
    def methods(self) -> tuple[str, ...]:
        """Of plain requests; an index is only read."""
        return READING if self.trusted else METHODS


class OwnAddresses:
    """The addresses of this machine: those of its interfaces, and those that the server sees."""

    def __init__(self) -> None:
        self._seen: set[Address] = set()

    def see(self, text: str) -> None:
        """An address from which the server was reached."""
        try:
            self._seen.add(ip_address(text))
        except ValueError:
            return

    def list(self) -> frozenset[Address]:
        """As they are at this moment."""
        return frozenset({*self._seen, *_interface_addresses()})


def _interface_addresses() -> list[Address]:
    texts = [entry.address for entries in psutil.net_if_addrs().values() for entry in entries]
    addresses: list[Address] = []
    for text in texts:
        try:
            addresses.append(ip_address(text.partition("%")[0]))
        except ValueError:
            continue  # of the link layer
    return addresses


class EgressGuard:
    """The rules of one sandbox; `name` is its attempt."""

    def __init__(self, name: str, rules: EgressRules, names: Resolver, own: OwnAddresses) -> None:
        self.rules = rules
        self._name = name
        self._names = names
        self._own = own

    def check(self, endpoint: Endpoint) -> None:
        """Raises RequestRefused for a host or port that is not allowed."""
        if endpoint in self.rules.trusted:
            return
        if not includes(self.rules.hosts, *endpoint):
            raise RequestRefused(HTTPStatus.FORBIDDEN, _refused(endpoint, self.rules.refusal))
        host, address = _parse(endpoint[0])
        try:
            if address is None:
                check_public_name(host)
        except InvalidInput as error:
            raise _not_public(endpoint, error.detail) from None

    async def connect(self, endpoint: Endpoint) -> Streams:
        """Raises RequestRefused for an address that is not allowed, and HostUnreachable."""
        addresses = await self._resolve(endpoint)
        if endpoint not in self.rules.trusted:
            self._check_addresses(endpoint, addresses)
        problem: OSError | None = None
        for address in addresses[:_MOST_ADDRESSES]:
            try:
                return await asyncio.open_connection(str(address), endpoint[1])
            except OSError as error:
                problem = error
        raise HostUnreachable("does not answer") from problem

    def _check_addresses(self, endpoint: Endpoint, addresses: Sequence[Address]) -> None:
        """All of them must pass, so that a name cannot hide a private address behind a public."""
        is_own = own_address_check(self._own.list())
        for address in addresses:
            reason = why_not_public(address)
            if reason is None and is_own(address):
                reason = "an address of this node"
            if reason is not None:
                raise _not_public(endpoint, f"It has an address that is {reason}.")

    async def _resolve(self, endpoint: Endpoint) -> list[Address]:
        host, address = _parse(endpoint[0])
        if address is not None:
            return [address]
        # The final dot keeps the resolver's search list from extending the name.
        name = host if endpoint in self.rules.trusted else f"{host}."
        try:
            found = await self._names.addresses(name, endpoint[1], self._name)
            addresses = [ip_address(text) for text in found]
        except (OSError, UnicodeError, ValueError) as error:
            raise HostUnreachable("has no address") from error
        except Busy:
            raise RequestRefused(
                HTTPStatus.SERVICE_UNAVAILABLE, "Too many names are being looked up."
            ) from None
        if not addresses:
            raise HostUnreachable("has no address")
        return addresses


def _parse(host: str) -> tuple[str, Address | None]:
    return parse_host(f"[{host}]" if ":" in host else host)


def _not_public(endpoint: Endpoint, sentence: str) -> AddressRefused:
    return AddressRefused(HTTPStatus.FORBIDDEN, _refused(endpoint, sentence))


def _refused(endpoint: Endpoint, sentence: str) -> str:
    return f"{endpoint[0]}:{endpoint[1]} is refused. {sentence}"
