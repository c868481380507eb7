"""Which hosts and addresses are public: everything else is refused to users of the pool.

The server checks webhooks with it, and a provider the network of tasks. The table follows the
registries of special addresses, because the standard library's differ by version and miss several.
Anything not known to be public is refused: of IPv6 only 2000::/3 is allocated. An IPv4 address
inside an IPv6 address is extracted and checked, because a gateway would do the same. Numbers that
some systems accept as an address (`127.1`, `0x7f000001`, `2130706433`) are refused, and so are
names that are never public.
"""

import re
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from potluck.model.error import InvalidInput

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_SPECIAL_4 = {
    IPv4Network(network): meaning
    for network, meaning in (
        ("0.0.0.0/8", "this machine"),
        ("10.0.0.0/8", "a private network"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", "loopback"),
        ("161.26.0.0/16", "a cloud's internal services"),
        ("166.8.0.0/14", "a cloud's internal services"),
        ("168.63.129.16/32", "a cloud's internal services"),
        ("169.254.0.0/16", "link-local, used for cloud metadata"),
        ("172.16.0.0/12", "a private network"),
        ("192.0.0.0/24", "reserved for protocols"),
        ("192.0.2.0/24", "for documentation"),
        ("192.31.196.0/24", "an anycast sink"),
        ("192.52.193.0/24", "an anycast relay"),
        ("192.88.99.0/24", "a 6to4 relay"),
        ("192.168.0.0/16", "a private network"),
        ("192.175.48.0/24", "an anycast sink"),
        ("198.18.0.0/15", "for benchmarks"),
        ("198.51.100.0/24", "for documentation"),
        ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved or broadcast"),
    )
}
_GIVEN_OUT = IPv6Network("2000::/3")
# The first match names an address: narrow networks before wide ones.
_SPECIAL_6 = {
    IPv6Network(network): meaning
    for network, meaning in (
        ("::/128", "this machine"),
        ("::1/128", "loopback"),
        ("::ffff:0:0/96", "an embedded IPv4 address"),
        ("::ffff:0:0:0/96", "an embedded IPv4 address"),
        ("::/96", "an embedded IPv4 address"),
        ("64:ff9b:1::/48", "a local translator"),
        ("100::/32", "a sink"),
        ("2001::/32", "a Teredo tunnel"),
        ("2001:2::/48", "for benchmarks"),
        ("2001::/23", "reserved for protocols"),
        ("2001:db8::/32", "for documentation"),
        ("2002::/16", "a 6to4 tunnel"),
        ("2620:4f:8000::/48", "an anycast sink"),
        ("3ffe::/16", "a finished experiment"),
        ("3fff::/20", "for documentation"),
        ("5f00::/16", "segment routing"),
        ("fc00::/7", "a private network"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "a private network"),
        ("ff00::/8", "multicast"),
    )
}
_NAT64 = IPv6Network("64:ff9b::/96")
_HOME_PREFIX = 64  # of IPv6: the network of one home
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)  # the upper half of the interface identifier


def why_not_public(address: Address) -> str | None:
    """Why the address is refused, in a few words; None if it is public."""
    if isinstance(address, IPv4Address):
        return _named(address, _SPECIAL_4)
    if address.scope_id is not None:
        return "a link-local address"
    if address in _NAT64:
        # In networks without IPv4, every public IPv4 address looks like this.
        within = why_not_public(IPv4Address(int(address) & 0xFFFF_FFFF))
        return None if within is None else f"NAT64 of {within}"
    if (int(address) >> 32) & 0xFFFF_FFFF in _ISATAP:
        return "an ISATAP tunnel"
    special = _named(address, _SPECIAL_6)
    return special or (None if address in _GIVEN_OUT else "not allocated")


def _named(address: Address, table: dict[IPv4Network, str] | dict[IPv6Network, str]) -> str | None:
    return next((meaning for network, meaning in table.items() if address in network), None)


def own_address_check(addresses: Iterable[Address]) -> Callable[[Address], bool]:
    """Whether an address is one of a machine's own; of IPv6, of the network of its home."""
    own = frozenset(addresses)
    homes = {_home(address) for address in own if isinstance(address, IPv6Address)}

    def is_own(address: Address) -> bool:
        if isinstance(address, IPv4Address):
            return address in own
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFF_FFFF) in own
        return _home(address) in homes

    return is_own


def _home(address: IPv6Address) -> int:
    return int(address) >> (128 - _HOME_PREFIX)


_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_NOWHERE_PUBLIC = (
    *("localhost", "local", "internal", "lan", "home.arpa", "onion"),
    *("invalid", "test", "example"),
)


def parse_host(text: str) -> tuple[str, Address | None]:
    """The host in lower case, and its address if it is one; IPv6 is in brackets.

    Raises InvalidInput for a number that is not a plain address.
    """
    if text.startswith("["):
        try:
            # The brackets of an URL would accept a zone, which is never public.
            address: Address = IPv6Address(text.removeprefix("[").removesuffix("]"))
        except ValueError:
            raise InvalidInput(
                f"{text[:64]} is not an IPv6 address.", "Write it like [2606:4700::1111]."
            ) from None
        return str(address), address
    host = text.lower()
    if not _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
        return host, None
    try:
        return host, IPv4Address(host)
    except ValueError:
        raise InvalidInput(
            f"{host[:64]} is an ambiguous number.",
            "Write a name, or an address as four decimal numbers like 198.41.0.4.",
        ) from None


def check_public_name(host: str) -> None:
    """Raises InvalidInput for what is not a name, or never a public one."""
    if host.endswith("."):
        raise InvalidInput(f"{host[:64]} ends with a dot.", "Leave the dot out.")
    labels = host.split(".")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise InvalidInput(
            f"{host[:64]} is not a host name.",
            "Use letters, digits and hyphens, separated by single dots.",
        )
    if len(labels) == 1 or any(f".{host}".endswith(f".{end}") for end in _NOWHERE_PUBLIC):
        raise InvalidInput(f"{host} is not a public name.", "Use the full public name.")
