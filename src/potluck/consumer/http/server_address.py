"""Server addresses in one normal form, for comparing, storing and connecting."""

from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from potluck.model.error import BadSettings

_DEFAULT_PORTS = {"http": 80, "https": 443}


def check_url(text: str) -> str:
    """The normal form of an address that is safe for tokens: https, or http on this machine."""
    url = normalize_url(text)
    host = urlsplit(url).hostname or ""
    if url.startswith("http:") and not _is_loopback(host):
        raise BadSettings(
            f"{url} is on another machine, and plain http would expose your credentials on the"
            " network.",
            "Use its https address: `potluck server --tls auto` serves one. Or use a tunnel:"
            " ssh -N -L 8470:127.0.0.1:8470 YOU@THAT-MACHINE, then http://127.0.0.1:8470.",
        )
    return url


def normalize_url(text: str) -> str:
    """Scheme, host and port, in lower case, without a default port or a path."""
    parts = _parts(text.strip())
    if parts is None:
        raise BadSettings(
            f"{text.strip()!r} is not a server address.",
            "Write it like http://127.0.0.1:8470 or https://potluck.example.org.",
        )
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = "" if parts.port in (None, _DEFAULT_PORTS[parts.scheme]) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"


def _parts(text: str) -> SplitResult | None:
    if not text.isprintable() or " " in text:
        return None
    try:
        parts = urlsplit(text)
        is_complete = parts.scheme in _DEFAULT_PORTS and parts.hostname and parts.port != 0
    except ValueError:
        return None
    rest = ("@" in parts.netloc, parts.path.strip("/"), parts.query, parts.fragment)
    return None if not is_complete or any(rest) else parts


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
