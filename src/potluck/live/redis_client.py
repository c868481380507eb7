"""Makes a client of Redis from the address that an operator has configured.

`redis://`, `rediss://` and `unix://` are read as redis-py does. With `redis+sentinel://` the
address names Sentinels, which know where the primary is, also after a fail-over.
"""

from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from msgspec import Struct
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

from potluck.model.error import BadSettings

ANSWER_SECONDS = 1.0
CONNECTIONS = 32

_SENTINEL_PORT = 26_379
_SENTINEL_SCHEMES = {"redis+sentinel": "redis", "rediss+sentinel": "rediss"}
# What a query says for the Sentinels alone.
_SENTINEL_CREDENTIALS = {"sentinel_username": "username", "sentinel_password": "password"}
_LIMITS: dict[str, Any] = {
    "max_connections": CONNECTIONS + 1,  # and the subscription's
    "socket_timeout": ANSWER_SECONDS,
    "socket_connect_timeout": ANSWER_SECONDS,
}


class RedisClient(Struct, frozen=True):
    """The client of the primary, and those of the Sentinels that tell where it is."""

    primary: Redis
    sentinels: tuple[Redis, ...] = ()

    async def close(self) -> None:
        for client in (self.primary, *self.sentinels):
            await client.aclose()


def make_client(url: str) -> RedisClient:
    try:
        parts = urlsplit(url)
        if parts.scheme in _SENTINEL_SCHEMES:
            return _with_sentinels(parts)
        pool = BlockingConnectionPool.from_url(
            url, timeout=ANSWER_SECONDS, retry=_retry(1), **_LIMITS
        )
    except ValueError:
        # Its text may have a piece of the password in it.
        raise BadSettings(
            "The Redis address is not valid.",
            "Write it like redis://host:6379/0, rediss://… for TLS, unix:///path/to/socket, or"
            " redis+sentinel://one:26379,two:26379/name, and special characters of the password"
            " percent-encoded.",
        ) from None
    return RedisClient(Redis.from_pool(pool))


def _retry(times: int) -> Retry:
    """A pooled connection may have died with an earlier Redis, so a new one is tried at once."""
    return Retry(NoBackoff(), times)


def _with_sentinels(parts: SplitResult) -> RedisClient:
    user, at, hosts = parts.netloc.rpartition("@")
    name, _, number = parts.path.removeprefix("/").partition("/")
    if not name:
        raise ValueError("no name of the primary")
    given, credentials = _query(parts.query)
    # Read as an address of one host would be, so that all of its parameters mean the same.
    scheme = _SENTINEL_SCHEMES[parts.scheme]
    single = SplitResult(scheme, f"{user}{at}primary", f"/{int(number or 0)}", urlencode(given), "")
    options: dict[str, Any] = {**parse_url(single.geturl())}
    for place in ("host", "port", "connection_class"):
        options.pop(place, None)
    options["ssl"] = scheme == "rediss"
    sentinel = Sentinel(  # type: ignore[no-untyped-call]
        [_place(host) for host in hosts.split(",")],
        sentinel_kwargs={**_sentinel_options(options), **credentials, "retry": _retry(0)},
    )
    primary = sentinel.master_for(unquote(name), **{**_LIMITS, **options, "retry": _retry(1)})
    return RedisClient(primary, tuple(sentinel.sentinels))


def _query(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """What is for the primary, and how to sign in to the Sentinels."""
    query = dict(parse_qsl(text, strict_parsing=True)) if text else {}
    credentials = {
        option: query.pop(name) for name, option in _SENTINEL_CREDENTIALS.items() if name in query
    }
    return query, credentials


def _sentinel_options(options: dict[str, Any]) -> dict[str, Any]:
    """Of the primary's: TLS, as its address says, and the timeouts."""
    tls = {name: value for name, value in options.items() if name.startswith("ssl")}
    seconds = {name: value for name, value in _LIMITS.items() if name.startswith("socket")}
    return {**tls, **seconds}


def _place(text: str) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError("an empty host")
    return parts.hostname, parts.port or _SENTINEL_PORT
