"""The network that a task needs and an owner allows, as patterns of hosts and ports.

A pattern is a host, with `:PORT` or for ports 80 and 443. A host is a public name or address,
`*.example.org` for all names below example.org, or `*` for every public host. People may also write
`open` for `*`, `none`, and names of presets, which stand for several patterns. `raw` is every
public IPv4 address, on all ports of TCP and UDP, without a proxy; it includes all others.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import END
from potluck.model.error import InvalidInput
from potluck.model.network.public_address import check_public_name, parse_host, why_not_public

NONE, OPEN, RAW = "none", "open", "raw"
ANY_HOST = "*"
USUAL_PORTS = (80, 443)
MOST_ENTRIES = 256
NetworkEntry = Annotated[str, Meta(min_length=1, max_length=260, pattern=f"^[!-~]*{END}")]
NetworkEntries = Annotated[tuple[NetworkEntry, ...], Meta(max_length=MOST_ENTRIES)]
NetworkBytes = Annotated[int, Meta(ge=1_000, le=2**50)]
Presets = Mapping[str, tuple[str, ...]]
NO_PRESETS: Presets = {}
_HINT = "Write a host, HOST:PORT, *.example.org, a preset, open or raw."


class HostPattern(Struct, frozen=True):
    host: str
    ports: tuple[int, ...]

    def covers_host(self, host: str) -> bool:
        """Whether it includes every host that `host`, a name or a pattern, can mean."""
        if self.host in (ANY_HOST, host):
            return True
        return self.host.startswith("*.") and host.endswith(self.host[1:])


@lru_cache(4096)
def read_pattern(entry: str) -> HostPattern:
    """Parses and checks a pattern; raises InvalidInput."""
    host, port = _split(entry)
    if host == ANY_HOST:
        return HostPattern(host, port)
    name, address = parse_host(host)
    if address is not None and (why_not := why_not_public(address)) is not None:
        raise InvalidInput(f"{address} is {why_not}.", "Tasks reach public addresses only.")
    if address is None:
        check_public_name(name.removeprefix("*."))
    return HostPattern(name, port)


def _split(entry: str) -> tuple[str, tuple[int, ...]]:
    if "/" in entry:
        host = (entry.partition("://")[2] or entry).partition("/")[0]
        raise InvalidInput(
            f"{entry!r} is not a host.", f"Write the host without the rest: {host or 'HOST'}."
        )
    host, colon, port = entry.rpartition(":")
    if not colon or entry.endswith("]"):
        return entry.lower(), USUAL_PORTS
    if ":" in host and not host.endswith("]"):
        raise InvalidInput(
            f"{entry!r} is not a host.", "Write an IPv6 address in brackets, such as [2001:db8::1]."
        )
    if not (port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 65_536):
        raise InvalidInput(f"{entry!r} has no valid port.", _HINT)
    return host.lower(), (int(port),)


def parse_entries(words: Iterable[str], name: str) -> tuple[str, ...]:
    """What people write for `name`: each once, `none` as nothing. Presets are not looked up, since
    a server or another machine may have its own. Raises InvalidInput."""
    entries = tuple(dict.fromkeys(word.strip().lower() for word in words if word.strip()))
    if entries == (NONE,):
        return ()
    if NONE in entries:
        raise InvalidInput(f"{name} cannot be none and something else.", "Write none alone.")
    for entry in entries:
        if not (entry.isascii() and entry.isprintable()) or " " in entry:
            raise InvalidInput(f"{name}: {entry[:100]!r} is not a host.", _HINT)
        if _is_pattern(entry):
            try:
                read_pattern(entry)
            except InvalidInput as error:
                raise InvalidInput(f"{name}: {error.detail}", error.hint) from None
    return entries


def expand_entries(entries: Iterable[str], presets: Presets) -> tuple[str, ...]:
    """The patterns that the entries stand for, sorted; raises InvalidInput."""
    expanded: set[str] = set()
    for entry in entries:
        word = entry.strip().lower()
        if word == RAW:
            return (RAW,)
        if word == OPEN:
            expanded.add(ANY_HOST)
        elif word in presets:
            expanded.update(presets[word])
        elif word != NONE:
            expanded.add(_checked(word, presets))
    return tuple(sorted(expanded))


def _checked(word: str, presets: Presets) -> str:
    if _is_pattern(word):
        read_pattern(word)
        return word
    known = sorted((*presets, OPEN, RAW))
    near = difflib.get_close_matches(word, known, 1)
    meant = f"Did you mean {near[0]}? " if near else ""
    raise InvalidInput(
        f"There is no network preset {word!r}.", f"{meant}There are: {', '.join(known)}."
    )


def _is_pattern(word: str) -> bool:
    """Whether it is not the name of a preset."""
    return not set(word).isdisjoint(".:[*")


def uncovered(wanted: Sequence[str], allowed: Sequence[str]) -> tuple[str, ...]:
    """The wanted patterns that the allowed ones do not include."""
    if not wanted or wanted == allowed or RAW in allowed:
        return ()
    patterns = [read_pattern(entry) for entry in allowed]
    return tuple(
        entry for entry in wanted if entry == RAW or not _is_covered(read_pattern(entry), patterns)
    )


def _is_covered(wanted: HostPattern, allowed: Sequence[HostPattern]) -> bool:
    return all(
        any(port in pattern.ports and pattern.covers_host(wanted.host) for pattern in allowed)
        for port in wanted.ports
    )


def includes(allowed: Sequence[str], host: str, port: int) -> bool:
    """Whether the patterns include this host, a name or an address in its usual spelling."""
    patterns = map(read_pattern, allowed)
    return any(port in pattern.ports and pattern.covers_host(host) for pattern in patterns)


def shorten(entries: Sequence[str], presets: Presets) -> tuple[str, ...]:
    """For people: the names of presets instead of their patterns."""
    if ANY_HOST in entries:
        return (OPEN, *(entry for entry in entries if entry.startswith("*:")))
    names = [name for name, hosts in presets.items() if hosts and set(hosts) <= set(entries)]
    in_presets = {host for name in names for host in presets[name]}
    return (*sorted(names), *(entry for entry in entries if entry not in in_presets))
