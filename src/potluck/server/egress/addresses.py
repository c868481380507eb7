"""Which addresses the server may reach for a stranger: public ones, and no others.

A table of our own, after the registries of special addresses, since those of the standard library
differ by version and let several through. What is not known to be public is refused: of IPv6 only
2000::/3 is given out to anybody. An IPv4 address within an IPv6 one is taken out and asked about,
because a gateway on the way would do the same.
"""

from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_SPECIAL_4 = {
    IPv4Network(network): meaning
    for network, meaning in (
        ("0.0.0.0/8", "this very machine"),
        ("10.0.0.0/8", "a private network"),
        ("100.64.0.0/10", "the inside of a carrier's network"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local, where clouds keep their secrets"),
        ("172.16.0.0/12", "a private network"),
        ("192.0.0.0/24", "kept for protocols"),
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
# The first that contains an address names it: narrow ones before wide ones.
_SPECIAL_6 = {
    IPv6Network(network): meaning
    for network, meaning in (
        ("::/128", "this very machine"),
        ("::1/128", "loopback"),
        ("::ffff:0:0/96", "an IPv4 address in other clothes"),
        ("::ffff:0:0:0/96", "an IPv4 address in other clothes"),
        ("::/96", "an IPv4 address in other clothes"),
        ("64:ff9b:1::/48", "a translator of a local network"),
        ("100::/32", "a sink"),
        ("2001::/32", "a Teredo tunnel"),
        ("2001:2::/48", "for benchmarks"),
        ("2001::/23", "kept for protocols"),
        ("2001:db8::/32", "for documentation"),
        ("2002::/16", "a 6to4 tunnel"),
        ("2620:4f:8000::/48", "an anycast sink"),
        ("3ffe::/16", "an experiment that is over"),
        ("3fff::/20", "for documentation"),
        ("5f00::/16", "segment routing"),
        ("fc00::/7", "a private network"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "a private network"),
        ("ff00::/8", "multicast"),
    )
}
_NAT64 = IPv6Network("64:ff9b::/96")
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)  # the upper half of an interface's part


def why_not(address: Address) -> str | None:
    """What stands against reaching it, in a few words; None if nothing does."""
    if isinstance(address, IPv4Address):
        return _named(address, _SPECIAL_4)
    if address.scope_id is not None:
        return "an address of one link"
    if address in _NAT64:
        # Where there is no IPv4 at all, every public IPv4 address looks like this.
        within = why_not(IPv4Address(int(address) & 0xFFFF_FFFF))
        return None if within is None else f"NAT64, and behind it {within}"
    if (int(address) >> 32) & 0xFFFF_FFFF in _ISATAP:
        return "an ISATAP tunnel"
    special = _named(address, _SPECIAL_6)
    return special or (None if address in _GIVEN_OUT else "given out to nobody")


def _named(address: Address, table: dict[IPv4Network, str] | dict[IPv6Network, str]) -> str | None:
    return next((meaning for network, meaning in table.items() if address in network), None)
