"""The package index that the owner of a node lets installations reach."""

from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from potluck.model.error import BadSettings

Endpoint = tuple[str, int]

_DEFAULT_PORTS = {"http": 80, "https": 443}
# Indexes that keep their files on another host.
_FILE_HOSTS = {"pypi.org": ("files.pythonhosted.org",)}


class PackageIndex(Struct, frozen=True):
    """An index (PEP 503) and the further hosts, `name` or `name:port`, that serve its files."""

    url: str = "https://pypi.org/simple"
    hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        parts = _split(self.url)
        if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
            raise _bad(self.url, "is not an http or https address")
        if "@" in parts.netloc:
            # Whoever installs could read it: a stranger's package, if builds are allowed.
            raise _bad(self.url.split("@")[-1], "must not carry a name or password")
        self.endpoints()  # a host that can not be read is told now, not to a stranger's task

    def endpoints(self) -> frozenset[Endpoint]:
        """Every host and port that an installation may connect to."""
        parts = _split(self.url)
        port = _DEFAULT_PORTS[parts.scheme]
        index = (parts.hostname or "", parts.port or port)
        files = _FILE_HOSTS.get(index[0], ()) + self.hosts
        return frozenset({index, *(_endpoint(each, port) for each in files)})


def hosts_of(text: str) -> tuple[str, ...]:
    """Hosts as the owner lists them, with commas between."""
    return tuple(each.strip() for each in text.split(",") if each.strip())


def _endpoint(text: str, default_port: int) -> Endpoint:
    parts = _split(f"//{text}")
    if not parts.hostname or parts.netloc != text:
        raise BadSettings(
            f"{text!r} is not a host that serves an index's files.",
            "Name it like --index-hosts files.example,cdn.example:8080.",
        )
    return parts.hostname, parts.port or default_port


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port  # is read from the text only here, and may be no number
    except ValueError as error:
        raise _bad(url, "can not be read") from error
    return parts


def _bad(text: str, problem: str) -> BadSettings:
    return BadSettings(
        f"The package index {text!r} {problem}.",
        "Give one such as --index-url https://pypi.org/simple.",
    )
