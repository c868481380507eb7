"""The address of a server, in the one form that is compared, kept and spoken to."""

from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from potluck.model.error import BadSettings

_USUAL_PORTS = {"http": 80, "https": 443}


def checked_url(text: str) -> str:
    """Spelled, and safe to sign in at: tokens do not leave this machine in the clear."""
    url = spelled_url(text)
    host = urlsplit(url).hostname or ""
    if url.startswith("http:") and not _is_loopback(host):
        raise BadSettings(
            f"{url} is another machine, and http would show it what you sign in with to everybody"
            " on the way.",
            "Use its https address: `potluck server --tls auto` serves one. Or come through a"
            " tunnel: ssh -N -L 8470:127.0.0.1:8470 YOU@THAT-MACHINE, then http://127.0.0.1:8470.",
        )
    return url


def spelled_url(text: str) -> str:
    """Scheme, host and port, in lower case, without the usual port and without a path."""
    parts = _parts(text.strip())
    if parts is None:
        raise BadSettings(
            f"{text.strip()!r} is not the address of a server.",
            "Write it like http://127.0.0.1:8470 or https://potluck.example.org.",
        )
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = "" if parts.port in (None, _USUAL_PORTS[parts.scheme]) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"


def _parts(text: str) -> SplitResult | None:
    if not text.isprintable() or " " in text:
        return None
    try:
        parts = urlsplit(text)
        named = parts.scheme in _USUAL_PORTS and parts.hostname and parts.port != 0
    except ValueError:
        return None
    rest = ("@" in parts.netloc, parts.path.strip("/"), parts.query, parts.fragment)
    return None if not named or any(rest) else parts


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
