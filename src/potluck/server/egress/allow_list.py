"""Hosts and networks that the operator allows in addition to public addresses."""

import re
from collections.abc import Sequence
from ipaddress import ip_address, ip_network

from msgspec import Struct

from potluck.model.error import BadSettings
from potluck.model.network.public_address import Address, Network

# host, host:port, network, network:port; IPv6 in brackets if there is a port.
_ENTRY = re.compile(
    r"(?:\[(?P<bracketed>[0-9a-f:./]+)\]|(?P<host>[a-z0-9_.-]+(?:/[0-9]+)?))(?::(?P<port>[0-9]+))?"
    r"|(?P<bare>[0-9a-f.]*:[0-9a-f:./]*)"
)


class AllowedDestination(Struct, frozen=True):
    host: str  # empty for a network
    network: Network | None
    port: int | None  # none: any


class Allowed(Struct, frozen=True):
    """The operator's exceptions; empty by default."""

    entries: tuple[AllowedDestination, ...] = ()

    def host(self, host: str, port: int) -> bool:
        """Whether the host itself is allowed, whatever its addresses are."""
        return any(entry.host == host for entry in self.entries if entry.port in (None, port))

    def address(self, address: Address, port: int) -> bool:
        return any(
            entry.network is not None and address in entry.network
            for entry in self.entries
            if entry.port in (None, port)
        )

    def some_network(self, port: int) -> bool:
        """Whether a name could resolve to an allowed address."""
        return any(
            entry.network is not None for entry in self.entries if entry.port in (None, port)
        )


def read_allowed(entries: Sequence[str]) -> Allowed:
    """Raises BadSettings for an entry that is neither a host nor a network."""
    return Allowed(tuple(_entry(text) for text in entries))


def _entry(text: str) -> AllowedDestination:
    match = _ENTRY.fullmatch(text.strip().lower())
    port = None if match is None or match["port"] is None else int(match["port"])
    if match is None or (port is not None and not 0 < port < 65_536):
        raise _unreadable(text)
    name = match["bracketed"] or match["host"] or match["bare"]
    network = _network(name)
    if network is None and (match["host"] is None or "/" in name):
        raise _unreadable(text)
    return AllowedDestination("" if network is not None else name, network, port)


def _network(text: str) -> Network | None:
    try:
        # Set bits after the prefix are a typing error: the intention is unclear.
        return ip_network(text) if "/" in text else ip_network(ip_address(text))
    except ValueError:
        return None


def _unreadable(text: str) -> BadSettings:
    return BadSettings(
        f"POTLUCK_WEBHOOK_ALLOW contains {text!r}, which is neither a host nor a network.",
        "Write receiver.example.org, receiver.example.org:8080, 10.2.0.0/16 or [fd00::/8]:8080.",
    )
