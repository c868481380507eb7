"""Parses and checks the URL of a webhook.

One regular expression parses all of it, so that no two parsers can disagree: the request goes to
what was checked.
"""

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import Struct

from potluck.model.error import DestinationRefused, InvalidInput
from potluck.model.network.public_address import (
    Address,
    check_public_name,
    parse_host,
    why_not_public,
)
from potluck.server.egress.allow_list import Allowed

T = TypeVar("T")
PORTS = (443, 8443)
LONGEST = 2048
_USUAL = {"https": 443, "http": 80}
_CHARACTERS = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})"
_ADDRESS = re.compile(
    r"(?P<scheme>https?)://"
    r"(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)"
    r"(?::(?P<port>[0-9]{1,5}))?"
    rf"(?P<target>(?:/{_CHARACTERS}*)?(?:\?(?:{_CHARACTERS}|\?)*)?)",
    re.IGNORECASE | re.ASCII,
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
    match = _ADDRESS.fullmatch(url) if len(url) <= LONGEST else None
    if match is None:
        raise DestinationRefused(*_unreadable(url))
    scheme = match["scheme"].lower()
    port = int(match["port"] or _USUAL[scheme])
    if not 0 < port < 65_536:
        raise DestinationRefused(f"{port} is not a port.", "Ports go from 1 to 65535.")
    host, address = _translated(parse_host, match["host"])
    is_trusted = allowed.host(host, port)
    if address is None and not is_trusted:
        _translated(check_public_name, host)
    destination = Destination(
        scheme=scheme,
        host=host,
        port=port,
        target=match["target"],
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
        reason = why_not_public(address)
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


def _translated(check: Callable[[str], T], host: str) -> T:
    try:
        return check(host)
    except InvalidInput as error:
        raise DestinationRefused(
            error.detail, f"{error.hint} The pool's operator can allow others."
        ) from None


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
            "The host name contains letters outside ASCII.",
            "Write it in its DNS form, which starts with xn--.",
        )
    if "#" in rest:
        return "The address contains a fragment (#), which is never sent.", "Leave it out."
    return (
        "The address contains invalid characters.",
        "Write them as % and two hexadecimal digits; the host as a name or an address.",
    )
