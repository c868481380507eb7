"""Who may connect, and whose word about the client is taken: proxies that the operator named.

And who counts as one, wherever connections or calls are counted.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Literal

from msgspec import Struct

from potluck.model.error import BadSettings

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Whoever has one address of IPv6 usually has the first of these networks, and often the second;
# but of the second there may be many holders, so it may do so many times more.
_HELD_BITS = ((64, 1), (48, 16))


class Client(Struct, frozen=True):
    address: str
    scheme: Literal["http", "https"]


class Peers:
    """Without any networks everybody may connect, and what they forward is not read."""

    def __init__(self, networks: Sequence[str]) -> None:
        self._networks = tuple(map(_network, networks))

    def may_connect(self, address: str) -> bool:
        return not self._networks or self._is_proxy(address)

    def client_behind(
        self, peer: tuple[str, int] | None, headers: Sequence[tuple[bytes, bytes]]
    ) -> Client | None:
        """Whom the proxy speaks for; None where there is no proxy.

        A client may put anything in front of what the proxies add, so the nearest address that is
        no proxy's is the client, whatever stands before it.
        """
        if not self._networks or peer is None:
            return None
        scheme = _listed(headers, b"x-forwarded-proto")[-1:]
        nearest = peer[0]
        for said in reversed(_listed(headers, b"x-forwarded-for")):
            address = _address(_without_port(said))
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
    """What is counted as one, and how many times the usual measure it has.

    An address of IPv4; two networks of IPv6.
    """
    found = _address(address)
    if not isinstance(found, IPv6Address):
        return [(str(found or address), 1)]
    return [(str(ip_network((found, bits), strict=False)), times) for bits, times in _HELD_BITS]


def _listed(headers: Sequence[tuple[bytes, bytes]], wanted: bytes) -> list[str]:
    values = [value.decode("latin-1") for name, value in headers if name == wanted]
    return [each.strip() for each in ",".join(values).split(",") if each.strip()]


def _address(text: str) -> Address | None:
    """An address as it is compared: one of IPv4 may come in the clothes of IPv6."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _without_port(text: str) -> str:
    """Some proxies say the client's port too: `1.2.3.4:555`, `[2001:db8::1]:555`."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


def _network(text: str) -> Network:
    try:
        network = ip_network(text)
    except ValueError as error:
        raise _no_proxies(text, str(error)) from error
    if network.prefixlen == 0:
        raise _no_proxies(text, "that is everybody, and everybody would be believed")
    return network


def _no_proxies(text: str, complaint: str) -> BadSettings:
    return BadSettings(
        f"--behind-proxy is {text!r}: {complaint}.",
        "Name the proxies' network like 10.0.0.0/24, or one proxy like 192.0.2.7.",
    )
