"""The package index that installations on this node may reach."""

from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from potluck.model.error import BadSettings
from potluck.provider.egress.request import Endpoint

_DEFAULT_PORTS = {"http": 80, "https": 443}
# Indexes that keep their files on another host.
_FILE_HOSTS = {"pypi.org": ("files.pythonhosted.org",)}


class PackageIndex(Struct, frozen=True):
    """An index (PEP 503) and the further hosts, `name` or `name:port`, that serve its files."""

    url: str = "https://pypi.org/simple"
    hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.endpoints()  # raises now for invalid hosts, rather than during a task

    def endpoints(self) -> frozenset[Endpoint]:
        """Every host and port that an installation may connect to."""
        index = endpoint_of(self.url, "The package index", "--index-url https://pypi.org/simple")
        port = _DEFAULT_PORTS[urlsplit(self.url).scheme]
        files = _FILE_HOSTS.get(index[0], ()) + self.hosts
        return frozenset({index, *(_endpoint(host, port) for host in files)})


def endpoint_of(url: str, what: str, example: str) -> Endpoint:
    """The host and port of a web address; raises BadSettings, which names `what` it is."""
    hint = f"Write it like {example}."
    parts = _split(url)
    if parts is None:
        raise BadSettings(f"{what} {url!r} is not a valid address.", hint)
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise BadSettings(f"{what} {url!r} is not an http or https address.", hint)
    if "@" in parts.netloc:
        # A package's build script could read it, if builds are allowed.
        shown = url.split("@")[-1]
        raise BadSettings(f"{what} {shown!r} must not carry a name or password.", hint)
    return parts.hostname, parts.port or _DEFAULT_PORTS[parts.scheme]


def parse_hosts(text: str) -> tuple[str, ...]:
    """Parses a comma-separated list."""
    return tuple(host.strip() for host in text.split(",") if host.strip())


def _endpoint(text: str, default_port: int) -> Endpoint:
    parts = _split(f"//{text}")
    if parts is None or not parts.hostname or parts.netloc != text:
        raise BadSettings(
            f"{text!r} is not a host name.",
            "Write it like --index-hosts files.example,cdn.example:8080.",
        )
    return parts.hostname, parts.port or default_port


def _split(url: str) -> SplitResult | None:
    """None if it is no valid address."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # parsed only on access; raises ValueError
    except ValueError:
        return None
    return parts
