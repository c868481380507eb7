"""What a server is called: a sign-in is good for these names, whatever a request claims."""

import ipaddress
import socket

from potluck.server.settings import ServerSettings, is_loopback

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def origins(settings: ServerSettings, scheme: str, port: int) -> tuple[str, ...]:
    """The public one first, then where it listens, as somebody on this machine would say it."""
    named = [f"{scheme}://{host}:{port}" for host in hosts(settings.host)]
    return tuple(dict.fromkeys([*([settings.public_url] if settings.public_url else []), *named]))


def hosts(host: str) -> list[str]:
    """The names of an address that is listened on; an unspecified one is every name of ours."""
    if is_loopback(host):
        return [_bracketed(host), *_LOOPBACK]
    if not _is_unspecified(host):
        return [_bracketed(host)]
    return [socket.gethostname().lower(), *_own_addresses(), *_LOOPBACK]


def _own_addresses() -> list[str]:
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [_bracketed(str(address[0]).partition("%")[0]) for *_, address in found]


def _is_unspecified(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host.lower()
