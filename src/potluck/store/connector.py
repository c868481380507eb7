"""Connects to PostgreSQL by the address that an operator has configured.

asyncpg reads the address as libpq does. Three things are done here: `connect_timeout`, which
asyncpg would send to the server as a setting; several hosts, which it would try within one timeout,
so that a host that is switched off uses up the time of the next; and among several hosts only one
that takes writes is used, unless the address says otherwise.
"""

from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

import asyncpg

from potluck.model.error import BadSettings

DATABASE_OPTION = "--database-url"
# A request waits this long for a connection, so by then every host has been tried.
CONNECT_SECONDS = 10.0

_NEXT_HOST = (
    OSError,  # TimeoutError and the errors of TLS included
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.TargetServerAttributeNotMatched,
)
_FORM = (
    "Use the form postgresql://user:password@host:5432/potluck. In the user and the password write"
    " special characters percent-encoded: @ as %40, : as %3A, / as %2F, ? as %3F, # as %23."
)


class _Unreadable(ValueError):
    """Why an address cannot be read."""


class DatabaseConnector:
    """Connects to the first host of an address that answers; the next time, to that one first.

    `source` is the option or variable that has the address.
    """

    def __init__(self, url: str, source: str = DATABASE_OPTION) -> None:
        self.source = source
        try:
            parts = _split(url)
            query = _query(parts)
            self._passwords = _passwords(parts, query)
            timeout = query.pop("connect_timeout", None)
            self._urls = _one_url_for_each_host(parts, query)
            self._seconds = _timeout(timeout, len(self._urls))
        except _Unreadable as error:
            why = f"The address in {source} cannot be read: {error}."
            raise BadSettings(why, _FORM) from None

    async def connect(self, **options: Any) -> "asyncpg.Connection[Any]":
        failure: Exception | None = None
        for url in list(self._urls):
            try:
                connection = await asyncpg.connect(url, timeout=self._seconds, **options)
            except _NEXT_HOST as error:
                failure = error
                continue
            self._urls.sort(key=lambda other: other != url)
            return connection
        assert failure is not None, "an address has a host"
        raise failure

    def explain(self, error: Exception) -> str:
        """What went wrong, without the password, whatever a library has put into its message."""
        if isinstance(error, TimeoutError) and self._seconds is not None:
            return f"no answer within {self._seconds:g} s"
        text = str(error) or type(error).__name__
        for password in self._passwords:
            text = text.replace(password, "***")
        return text.rstrip(".")


def _split(url: str) -> SplitResult:
    """Refuses what would be read in another way than it was meant. No part of the address is in a
    sentence: any of them may be a piece of the password.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _Unreadable("it is not a URL") from None
    if parts.scheme not in ("postgresql", "postgres"):
        raise _Unreadable("it does not start with postgresql:// or postgres://")
    # A special character of the password that is not encoded ends the host part early.
    if parts.netloc.count("@") > 1 or "@" in parts.path + parts.query or parts.fragment:
        raise _Unreadable("it has an @ or a # that is not percent-encoded")
    return parts


def _query(parts: SplitResult) -> dict[str, str]:
    if not parts.query:
        return {}
    try:
        return dict(parse_qsl(parts.query, strict_parsing=True))
    except ValueError:
        raise _Unreadable("what follows the ? is not a list of name=value, joined by &") from None


def _passwords(parts: SplitResult, query: dict[str, str]) -> list[str]:
    written = parts.netloc.rpartition("@")[0].partition(":")[2]
    every = {written, unquote(written), query.get("password", "")}
    return sorted(every - {""}, key=len, reverse=True)


def _one_url_for_each_host(parts: SplitResult, query: dict[str, str]) -> list[str]:
    user, at, before = parts.netloc.rpartition("@")
    hosts = _hosts(before, query.pop("host", ""))
    ports = [port for port in query.pop("port", "").split(",") if port]
    if ports:
        if len(ports) not in (1, len(hosts)):
            raise _Unreadable("it has another number of ports than of hosts")
        hosts = [(host, ports[min(index, len(ports) - 1)]) for index, (host, _) in enumerate(hosts)]
    if not all(_is_port(port) for _, port in hosts if port):
        raise _Unreadable("a port is not a number from 1 to 65535")
    if len(hosts) > 1:
        # A standby also answers, and refuses every write.
        query = {"target_session_attrs": "read-write"} | query
    urls = []
    for host, port in hosts:
        place = {name: value for name, value in (("host", host), ("port", port)) if value}
        text = urlencode(query | place, quote_via=quote)
        # A path without a name would hide the name in the query.
        path = parts.path.removesuffix("/")
        urls.append(parts._replace(netloc=user + at, path=path, query=text).geturl())
    return urls


def _hosts(before_path: str, in_query: str) -> list[tuple[str, str]]:
    """Hosts and ports; both empty where PGHOST or the usual socket is meant."""
    if not before_path:
        return [(_bracketed(host), "") for host in in_query.split(",")]
    hosts = []
    for text in before_path.split(","):
        host, bracket, rest = text.rpartition("]")
        name, colon, port = rest.partition(":")
        if (colon and not port) or not (host + bracket + name):
            raise _Unreadable("a host or a port is empty")
        hosts.append((unquote(host + bracket + name), unquote(port)))
    return hosts


def _bracketed(host: str) -> str:
    """IPv6, which libpq takes without brackets here."""
    return f"[{host}]" if ":" in host and host[0] not in "[/" else host


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and 0 < int(text) < 65_536


def _timeout(text: str | None, hosts: int) -> float | None:
    """For each host, as with libpq, where zero and less mean no limit."""
    if text is None:
        return CONNECT_SECONDS / hosts
    try:
        seconds = int(text)
    except ValueError:
        raise _Unreadable("connect_timeout is not a number of seconds") from None
    return float(seconds) if seconds > 0 else None
