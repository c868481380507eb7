"""Who may connect, and whose word about the client is taken: proxies that the operator named."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Literal

from msgspec import Struct

from potluck.model.error import BadSettings

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


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
            address = _address(said)
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


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise BadSettings(
            f"--behind-proxy is {text!r}: {error}.",
            "Name the proxies' network like 10.0.0.0/24, or one proxy like 192.0.2.7.",
        ) from error
