"""The live side of a server with many instances: Redis or Valkey.

While it is away, values are missing and wake-ups stay within their instance; nothing fails. It is
not needed at the start either: `ping` says whether it is there.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import cast

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from potluck.live.interface import Listener
from potluck.live.listeners import Listeners
from potluck.live.outage import Outage
from potluck.live.wake_channel import WakeChannel
from potluck.model.error import BadSettings

_PREFIX = "potluck:"
_ANSWER_SECONDS = 1.0
_CONNECTIONS = 32


class RedisLive:
    """Made by `connect`, ended by `close`."""

    def __init__(self, client: Redis):
        self._client = client
        self._listeners = Listeners()
        self._outage = Outage()
        self._channel = WakeChannel(client, self._listeners, self._outage)

    @classmethod
    async def connect(cls, url: str) -> "RedisLive":
        live = cls(_client(url))
        await live._channel.open(2 * _ANSWER_SECONDS)
        return live

    async def wake(self, topic: str) -> None:
        self._listeners.wake(topic)
        self._channel.send(topic)

    def listen(self, *topics: str) -> AbstractAsyncContextManager[Listener]:
        return self._listeners.listen(*topics)

    async def put(self, key: str, value: bytes, ttl_seconds: float) -> None:
        ttl_milliseconds = max(1, round(ttl_seconds * 1000))
        await self._outage.softly(
            lambda: self._client.set(_PREFIX + key, value, px=ttl_milliseconds), None
        )

    async def get(self, key: str) -> bytes | None:
        return (await self.get_many([key]))[0]

    async def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        if not keys:
            return []
        names = [_PREFIX + key for key in keys]
        nothing: list[bytes | str | None] = [None] * len(keys)
        found = await self._outage.softly(lambda: self._client.mget(names), nothing)
        return cast(list[bytes | None], found)  # the client was not asked to decode

    async def drop(self, key: str) -> None:
        await self._outage.softly(lambda: self._client.delete(_PREFIX + key), 0)

    async def ping(self) -> bool:
        return bool(await self._outage.softly(lambda: self._client.ping(), False))

    async def close(self) -> None:
        await self._channel.close()
        await self._client.aclose()


def _client(url: str) -> Redis:
    try:
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=_CONNECTIONS,
            timeout=_ANSWER_SECONDS,
            socket_timeout=_ANSWER_SECONDS,
            socket_connect_timeout=_ANSWER_SECONDS,
            # A kept connection may have died with an earlier Redis: try once more on a new one.
            retry=Retry(NoBackoff(), 1),
        )
    except ValueError as error:
        raise BadSettings(
            f"The Redis address is not valid: {error}.",
            "Write it like redis://host:6379/0, rediss://… for TLS, or unix:///path/to/socket.",
        ) from error
    return Redis.from_pool(pool)
