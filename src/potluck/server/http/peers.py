"""Trusted proxies and the client behind them, and how addresses are counted."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Literal

from msgspec import Struct

from potluck.model.error import BadSettings

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# The holder of an IPv6 address usually has its /64, and often its /48. A /48 may have several
# holders, so its limit is higher by this factor.
_HELD_BITS = ((64, 1), (48, 16))


class Client(Struct, frozen=True):
    address: str
    scheme: Literal["http", "https"]


class Peers:
    """Without networks, everyone may connect and forwarding headers are ignored."""

    def __init__(self, networks: Sequence[str]) -> None:
        self._networks = tuple(map(_network, networks))

    def may_connect(self, address: str) -> bool:
        return not self._networks or self._is_proxy(address)

    def client_behind(
        self, peer: tuple[str, int] | None, headers: Sequence[tuple[bytes, bytes]]
    ) -> Client | None:
        """The client that the proxy forwards for; None without a proxy.

        A client can send forged entries, but proxies append theirs: the last address that is no
        proxy is the client.
        """
        if not self._networks or peer is None:
            return None
        scheme = _listed(headers, b"x-forwarded-proto")[-1:]
        nearest = peer[0]
        for hop in reversed(_listed(headers, b"x-forwarded-for")):
            address = _address(_without_port(hop))
            if address is None:
                break
            nearest = str(address)
            if not self._is_proxy(nearest):
                break
        return Client(nearest, "https" if scheme == ["https"] else "http")

    def _is_proxy(self, text: str) -> bool:
        address = _address(text)
        return address is not None and any(
            address in network for network in self._networks if network.version == address.version
        )


def holders(address: str) -> list[tuple[str, int]]:
    """The names under which an address is counted, each with the factor of its limit.

    One for IPv4, two networks for IPv6.
    """
    found = _address(address)
    if not isinstance(found, IPv6Address):
        return [(str(found or address), 1)]
    return [(str(ip_network((found, bits), strict=False)), times) for bits, times in _HELD_BITS]


def _listed(headers: Sequence[tuple[bytes, bytes]], wanted: bytes) -> list[str]:
    values = [value.decode("latin-1") for name, value in headers if name == wanted]
    return [value.strip() for value in ",".join(values).split(",") if value.strip()]


def _address(text: str) -> Address | None:
    """A comparable address: IPv4-mapped IPv6 addresses become IPv4."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _without_port(text: str) -> str:
    """Some proxies add the client's port: `1.2.3.4:555`, `[2001:db8::1]:555`."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


def _network(text: str) -> Network:
    try:
        network = ip_network(text)
    except ValueError as error:
        raise _no_proxies(text, str(error)) from error
    if network.prefixlen == 0:
        raise _no_proxies(text, "this would trust every client")
    return network


def _no_proxies(text: str, complaint: str) -> BadSettings:
    return BadSettings(
        f"--behind-proxy is {text!r}: {complaint}.",
        "Give the network of the proxies, such as 10.0.0.0/24, or one address.",
    )
