"""The live state of a server with many instances, in Redis or Valkey.

During an outage values are missing and wake-ups stay within their instance; nothing fails, not even
the start. `ping` tells whether Redis answers.
"""

import time
from collections.abc import Awaitable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import cast

from redis import AuthenticationError, RedisError, ResponseError

from potluck.live.interface import MOST_MESSAGES, Listener
from potluck.live.listeners import Listeners
from potluck.live.redis_client import ANSWER_SECONDS, CONNECTIONS, RedisClient, make_client
from potluck.live.redis_outage import Outage
from potluck.live.token_buckets import Buckets
from potluck.live.wake_channel import WakeChannel
from potluck.model.error import BadSettings, Unavailable

_PREFIX = "potluck:"
_MESSAGE_SECONDS = 60
# Buckets.take and peek, atomically for all instances and by the clock of Redis.
_TAKE = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local each, burst = 1 / tonumber(ARGV[1]), tonumber(ARGV[2])
local full_at = math.max(now, tonumber(redis.call('GET', KEYS[1]) or now)) + each
local too_early = full_at - burst * each - now
if too_early > 0.000001 then
  return string.format('%.6f', too_early)
end
if ARGV[3] == 'take' then
  local kept = math.ceil((full_at - now) * 1000)
  redis.call('SET', KEYS[1], string.format('%.6f', full_at), 'PX', kept)
end
return '0'
"""


class RedisLive:
    """Created by `connect`, ended by `close`."""

    def __init__(self, client: RedisClient):
        self._redis = client
        self._client = client.primary
        self._listeners = Listeners()
        self._outage = Outage(CONNECTIONS)
        self._buckets = Buckets()  # during an outage
        self._bucket = self._client.register_script(_TAKE)
        self._channel = WakeChannel(self._client, self._listeners, self._outage)

    @classmethod
    async def connect(cls, url: str) -> "RedisLive":
        live = cls(make_client(url))
        await live._channel.open(2 * ANSWER_SECONDS)
        return live

    async def wake(self, topic: str) -> None:
        self._listeners.wake(topic)
        self._channel.send(topic)

    def listen(self, *topics: str) -> AbstractAsyncContextManager[Listener]:
        return self._listeners.listen(*topics)

    async def put(self, key: str, value: bytes, ttl_seconds: float) -> None:
        ttl_milliseconds = max(1, round(ttl_seconds * 1000))
        await self._outage.call_or_default(
            lambda: self._client.set(_PREFIX + key, value, px=ttl_milliseconds), None
        )

    async def get(self, key: str) -> bytes | None:
        return (await self.get_many([key]))[0]

    async def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        if not keys:
            return []
        names = [_PREFIX + key for key in keys]
        nothing: list[bytes | str | None] = [None] * len(keys)
        values = await self._outage.call_or_default(lambda: self._client.mget(names), nothing)
        return cast(list[bytes | None], values)  # the client does not decode

    async def drop(self, key: str) -> None:
        await self._outage.call_or_default(lambda: self._client.delete(_PREFIX + key), 0)

    async def append(self, key: str, value: bytes, most: int, ttl_seconds: float) -> None:
        async def ask() -> None:
            async with self._client.pipeline() as steps:
                steps.rpush(_PREFIX + key, value)
                steps.ltrim(_PREFIX + key, -most, -1)
                steps.pexpire(_PREFIX + key, max(1, round(ttl_seconds * 1000)))
                await steps.execute()

        await self._outage.call_or_default(ask, None)

    async def series(self, key: str) -> list[bytes]:
        def ask() -> Awaitable[list[bytes]]:
            return cast(Awaitable[list[bytes]], self._client.lrange(_PREFIX + key, 0, -1))

        return await self._outage.call_or_default(ask, [])

    async def post(self, box: str, message: bytes) -> None:
        async def ask() -> None:
            async with self._client.pipeline() as steps:
                steps.rpush(_PREFIX + box, message)
                steps.ltrim(_PREFIX + box, -MOST_MESSAGES, -1)
                steps.expire(_PREFIX + box, _MESSAGE_SECONDS)
                await steps.execute()

        await self._outage.call_or_default(ask, None)

    async def collect(self, box: str) -> list[bytes]:
        async def ask() -> list[bytes]:
            messages = await cast(
                Awaitable[list[bytes] | None], self._client.lpop(_PREFIX + box, MOST_MESSAGES)
            )
            return messages or []

        return await self._outage.call_or_default(ask, [])

    async def take(self, key: str, per_second: float, burst: int) -> float:
        wait_seconds = await self._ask_bucket(key, per_second, burst, "take")
        if wait_seconds is None:
            return self._buckets.take(key, per_second, burst, time.monotonic())
        return wait_seconds

    async def peek(self, key: str, per_second: float, burst: int) -> float:
        wait_seconds = await self._ask_bucket(key, per_second, burst, "peek")
        if wait_seconds is None:
            return self._buckets.peek(key, per_second, burst, time.monotonic())
        return wait_seconds

    async def _ask_bucket(self, key: str, per_second: float, burst: int, verb: str) -> float | None:
        def ask() -> Awaitable[bytes]:
            call = self._bucket([_PREFIX + key], [per_second, burst, verb])
            return cast(Awaitable[bytes], call)

        wait_seconds = await self._outage.call_or_default(ask, None)
        return None if wait_seconds is None else float(wait_seconds)

    async def ping(self) -> bool:
        return bool(await self._outage.call_or_default(lambda: self._client.ping(), False))

    async def close(self) -> None:
        await self._channel.close()
        await self._redis.close()


async def check_redis(url: str) -> None:
    """Raises Unavailable if Redis is away, and BadSettings if it refuses this address."""
    client = make_client(url)
    try:
        await client.primary.ping()
    except (RedisError, OSError) as error:
        # The client makes a connection error of what a new connection is refused for.
        if isinstance(error.__cause__ or error, AuthenticationError | ResponseError):
            raise BadSettings(
                f"Redis refuses the address in --redis-url: {error}",
                "Check its user, password and database number.",
            ) from error
        raise Unavailable(
            f"No server answers at the address in --redis-url: {error}",
            "Start Redis or Valkey there, or omit the option to run a single instance.",
        ) from error
    finally:
        await client.close()
