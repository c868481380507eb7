"""What a server is called: a sign-in is good for these names, whatever a request claims."""

import ipaddress
import socket
from urllib.parse import urlsplit

import psutil

from potluck.server.http.exposure import is_loopback
from potluck.server.settings import ServerSettings

_USUAL_PORT = {"http": 80, "https": 443}
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def origins(settings: ServerSettings, scheme: str, port: int) -> tuple[str, ...]:
    """The public one alone, or where it listens.

    Names that every machine has are good only where nobody else can come: a signature for
    `127.0.0.1`, given at the end of a tunnel to another pool, must not be worth anything here.
    """
    if settings.public_url is not None:
        return (settings.public_url,)
    named = [
        f"{scheme}://{host}{suffix}"
        for host in host_names(settings.host)
        # Browsers leave the usual port out.
        for suffix in ("", f":{port}")
        if suffix or _USUAL_PORT[scheme] == port
    ]
    return tuple(dict.fromkeys(named))


def certificate_names(settings: ServerSettings) -> list[str]:
    """What a certificate of ours has to be good for: every name, without a port."""
    public = urlsplit(settings.public_url or "").hostname
    listening = [host.strip("[]") for host in (*host_names(settings.host), *_LOOPBACK)]
    return [*([public] if public else []), *listening]


def host_names(host: str) -> list[str]:
    """The names of an address that is listened on; an unspecified one is every name of ours."""
    if is_loopback(host):
        return [_bracketed(host), *_LOOPBACK]
    if not _is_unspecified(host):
        return [_bracketed(host)]
    return [socket.gethostname().lower(), *_own_addresses()]


def _own_addresses() -> list[str]:
    """Of all network cards; those that hold for one cable only are of no use in an address."""
    found = [each.address for card in psutil.net_if_addrs().values() for each in card]
    return [_bracketed(text) for text in found if _is_routable(text)]


def _is_routable(text: str) -> bool:
    """False for what is no IP address at all, too: cards have others."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not (address.is_link_local or address.is_loopback)


def _is_unspecified(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host.lower()
