"""Parses and checks the URL of a webhook.

One regular expression parses all of it, so that no two parsers can disagree: the request goes to
what was checked. Numbers that some systems accept as an address (`127.1`, `0x7f000001`,
`2130706433`) are refused, and so are names that are never public.
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
    address: Address | None  # if the host is an address
    is_trusted: bool  # the operator allows this host: its addresses are not checked
    needs_allowance: (
        bool  # http, or an unusual port: only for destinations that the operator allows
    )

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.target or '/'}"


def read_destination(url: str, allowed: Allowed) -> Destination:
    """Checks the URL without using the network. Raises DestinationRefused."""
    found = _ADDRESS.fullmatch(url) if len(url) <= LONGEST else None
    if found is None:
        raise DestinationRefused(*_unreadable(url))
    scheme = found["scheme"].lower()
    port = int(found["port"] or _USUAL[scheme])
    if not 0 < port < 65_536:
        raise DestinationRefused(f"{port} is not a port.", "Ports go from 1 to 65535.")
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
    """All of them must pass, since any of them may be used."""
    if destination.is_trusted:
        return
    for address in addresses:
        if allowed.address(address, destination.port):
            continue
        reason = why_not(address)
        if reason is not None:
            raise DestinationRefused(
                # Do not reveal the addresses of names in the server's own network.
                f"{destination.host} does not have a public address."
                if destination.address is None
                else f"{address} is {reason}.",
                "Webhooks are sent to public addresses. The pool's operator can allow others.",
            )
        if destination.needs_allowance:
            raise _needs_allowance(destination)


def _host(six: str | None, host: str | None) -> tuple[str, Address | None]:
    """The normalised host, and its address if it is one."""
    if six is not None:
        try:
            address: Address = IPv6Address(six)
        except ValueError:
            raise DestinationRefused(
                f"[{six}] is not an IPv6 address.", "Write it like [2606:4700::1111]."
            ) from None
        return str(address), address
    assert host is not None, "the expression matches one of the two"
    host = host.lower()
    if not _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
        return host, None
    try:
        return host, IPv4Address(host)
    except ValueError:
        raise DestinationRefused(
            f"{host} is an ambiguous number.",
            "Write a name, or an address as four decimal numbers like 198.41.0.4.",
        ) from None


def _check_name(host: str) -> None:
    if host.endswith("."):
        raise DestinationRefused(f"{host} ends with a dot.", "Leave the dot out.")
    labels = host.split(".")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise DestinationRefused(
            f"{host[:64]} is not a host name.",
            "Use letters, digits and hyphens, separated by single dots.",
        )
    if len(labels) == 1 or any(f".{host}".endswith(f".{end}") for end in _NOWHERE_PUBLIC):
        raise DestinationRefused(
            f"{host} is not a public name.",
            "Use the full public name. The pool's operator can allow others.",
        )


def _needs_allowance(destination: Destination) -> DestinationRefused:
    if destination.scheme != "https":
        return DestinationRefused(
            "Events are sent over https only.", "Begin the address with https://."
        )
    return DestinationRefused(
        f"Events are not sent to port {destination.port}.",
        f"Listen on port {' or '.join(map(str, PORTS))}. The operator can allow others.",
    )


def _unreadable(url: str) -> tuple[str, str]:
    """The problem and a hint, for common mistakes."""
    if len(url) > LONGEST:
        return f"The address is longer than {LONGEST} characters.", "Use a shorter one."
    scheme, mark, rest = url.partition("://")
    if not mark or scheme.lower() not in _USUAL:
        return (
            "The address does not begin with https://.",
            "Write it like https://example.org/hook.",
        )
    authority = re.split(r"[/?#\\]", rest, maxsplit=1)[0]
    if "@" in authority:
        return (
            "The address contains a user name or a password.",
            "Leave it out: events are signed, and the receiver can verify them.",
        )
    if not authority.isascii():
        return (
            "The host name contains letters outside of ASCII.",
            "Write it in its DNS form, which starts with xn--.",
        )
    if "#" in rest:
        return "The address contains a fragment (#), which is never sent.", "Leave it out."
    return (
        "The address contains invalid characters.",
        "Write them as % and two hexadecimal digits; the host as a name or an address.",
    )
