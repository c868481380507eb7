"""An address that somebody typed, read in one way only, and what may be reached of it.

There is one expression for the whole of it, so that no two readers can understand it differently:
what is sent is what was read. Numbers that some systems take for an address (`127.1`, `0x7f000001`,
`2130706433`) are refused as such; so are names that lead nowhere public by their meaning.
"""

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address

from msgspec import Struct

from potluck.model.error import DestinationRefused
from potluck.server.egress.addresses import Address, why_not
from potluck.server.egress.allow_list import Allowed

PORTS = (443, 8443)
LONGEST = 2048
_USUAL = {"https": 443, "http": 80}
_CHARACTERS = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})"
_ADDRESS = re.compile(
    r"(?P<scheme>https?)://"
    r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[A-Za-z0-9.-]+))"
    r"(?::(?P<port>[0-9]{1,5}))?"
    rf"(?P<target>(?:/{_CHARACTERS}*)?(?:\?(?:{_CHARACTERS}|\?)*)?)",
    re.IGNORECASE | re.ASCII,
)
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_NOWHERE_PUBLIC = (
    *("localhost", "local", "internal", "lan", "home.arpa", "onion"),
    *("invalid", "test", "example"),
)


class Destination(Struct, frozen=True):
    scheme: str
    host: str  # in lower case; an IPv6 address without brackets
    port: int
    target: str  # path and query, as they are sent
    address: Address | None  # if the host is one, and not a name
    is_trusted: bool  # the operator named this host: where it leads is not asked
    needs_allowance: bool  # http, or an unusual port: only for what the operator named

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.target or '/'}"


def read_destination(url: str, allowed: Allowed) -> Destination:
    """The spelling alone, without a look at the network. Raises DestinationRefused."""
    found = _ADDRESS.fullmatch(url) if len(url) <= LONGEST else None
    if found is None:
        raise DestinationRefused(*_unreadable(url))
    scheme = found["scheme"].lower()
    port = int(found["port"] or _USUAL[scheme])
    if not 0 < port < 65_536:
        raise DestinationRefused(f"There is no port {port}.", "Ports go from 1 to 65535.")
    host, address = _host(found["six"], found["host"])
    is_trusted = allowed.host(host, port)
    if address is None and not is_trusted:
        _check_name(host)
    destination = Destination(
        scheme=scheme,
        host=host,
        port=port,
        target=found["target"],
        address=address,
        is_trusted=is_trusted,
        needs_allowance=not is_trusted and (scheme != "https" or port not in PORTS),
    )
    if address is not None:
        check_addresses(destination, [address], allowed)
    elif destination.needs_allowance and not allowed.some_network(port):
        raise _needs_allowance(destination)
    return destination


def check_addresses(
    destination: Destination, addresses: Sequence[Address], allowed: Allowed
) -> None:
    """Every one of them has to pass: which of them is taken is not ours to choose."""
    if destination.is_trusted:
        return
    for address in addresses:
        if allowed.address(address, destination.port):
            continue
        reason = why_not(address)
        if reason is not None:
            raise DestinationRefused(
                # Where a name leads within the server's own network is nobody else's matter.
                f"{destination.host} is not at a public address."
                if destination.address is None
                else f"{address} is {reason}.",
                "Webhooks go to public addresses. The operator of the pool can allow others.",
            )
        if destination.needs_allowance:
            raise _needs_allowance(destination)


def _host(six: str | None, host: str | None) -> tuple[str, Address | None]:
    """The host in its one spelling, and the address that it is, if it is one."""
    if six is not None:
        try:
            address: Address = IPv6Address(six)
        except ValueError:
            raise DestinationRefused(
                f"[{six}] is not an IPv6 address.", "Write it like [2606:4700::1111]."
            ) from None
        return str(address), address
    assert host is not None, "the expression has one of the two"
    host = host.lower()
    if not _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
        return host, None
    try:
        return host, IPv4Address(host)
    except ValueError:
        raise DestinationRefused(
            f"{host} is a number that some read as an address, and others do not.",
            "Write a name, or an address as four decimal numbers like 198.41.0.4.",
        ) from None


def _check_name(host: str) -> None:
    if host.endswith("."):
        raise DestinationRefused(f"{host} ends with a dot.", "Leave the dot out.")
    labels = host.split(".")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise DestinationRefused(
            f"{host[:64]} is not a name of a host.",
            "Letters, digits and hyphens, with single dots between them.",
        )
    if len(labels) == 1 or any(f".{host}".endswith(f".{end}") for end in _NOWHERE_PUBLIC):
        raise DestinationRefused(
            f"{host} is not a public name.",
            "Use the full name under which everybody reaches it. The operator of the pool can"
            " allow others.",
        )


def _needs_allowance(destination: Destination) -> DestinationRefused:
    if destination.scheme != "https":
        return DestinationRefused(
            "Events are sent by https only.", "Begin the address with https://."
        )
    return DestinationRefused(
        f"Port {destination.port} is not one that events are sent to.",
        f"Listen on port {' or '.join(map(str, PORTS))}. The operator can allow others.",
    )


def _unreadable(url: str) -> tuple[str, str]:
    """What is wrong with it, for the mistakes that somebody makes in good faith."""
    if len(url) > LONGEST:
        return f"The address is longer than {LONGEST} characters.", "Use a shorter one."
    scheme, mark, rest = url.partition("://")
    if not mark or scheme.lower() not in _USUAL:
        return "The address does not begin with https://.", "Like https://example.org/hook."
    authority = re.split(r"[/?#\\]", rest, maxsplit=1)[0]
    if "@" in authority:
        return (
            "The address has a user name or a password in it.",
            "Leave it out: every event is signed, and the receiver can check that.",
        )
    if not authority.isascii():
        return (
            "The name of the host has letters outside of ASCII.",
            "Write it as DNS has it, beginning with xn--, so that it can be taken for no other.",
        )
    if "#" in rest:
        return "The address has a part after #, which is never sent.", "Leave it out."
    return (
        "The address has characters in it that no address has.",
        "Write others as % and two hexadecimal digits; the host as a name or an address.",
    )
