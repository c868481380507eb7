"""The origins of a server: a sign-in is valid for these names, regardless of the request."""

import ipaddress
import socket
from urllib.parse import urlsplit

import psutil

from potluck.server.http.exposure import is_loopback
from potluck.server.settings import ServerSettings

_USUAL_PORT = {"http": 80, "https": 443}
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def origins(settings: ServerSettings, scheme: str, port: int) -> tuple[str, ...]:
    """The public URL alone, or the addresses the server listens on.

    Names that every machine has count only on a server that is private to its machine: a signature
    for `127.0.0.1`, given at the end of a tunnel to another pool, must be worthless here.
    """
    if settings.public_url is not None:
        return (settings.public_url,)
    urls = [
        f"{scheme}://{host}{suffix}"
        for host in host_names(settings.host)
        # Browsers omit the default port.
        for suffix in ("", f":{port}")
        if suffix or _USUAL_PORT[scheme] == port
    ]
    return tuple(dict.fromkeys(urls))


def certificate_names(settings: ServerSettings) -> list[str]:
    """Every name a certificate of this server must cover, without ports."""
    public = urlsplit(settings.public_url or "").hostname
    listening = [host.strip("[]") for host in (*host_names(settings.host), *_LOOPBACK)]
    return [*([public] if public else []), *listening]


def host_names(host: str) -> list[str]:
    """The names of a listening address; for an unspecified one, every name of this machine."""
    if is_loopback(host):
        return [_bracketed(host), *_LOOPBACK]
    if not _is_unspecified(host):
        return [_bracketed(host)]
    return [socket.gethostname().lower(), *_own_addresses()]


def _own_addresses() -> list[str]:
    """The addresses of all network interfaces, without link-local ones."""
    addresses = psutil.net_if_addrs().values()
    return [_bracketed(a.address) for card in addresses for a in card if _is_routable(a.address)]


def _is_routable(text: str) -> bool:
    """Also False for addresses that are no IP address: interfaces have others."""
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
