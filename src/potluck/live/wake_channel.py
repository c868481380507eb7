"""Wake-ups between the instances of a server, over one Redis channel for all topics.

Topics that are woken while a message is being sent go into the next one, so a busy instance sends
few messages, and a wake never waits for Redis. After a lost connection all listeners are woken
once, since wake-ups may have been missed.
"""

import asyncio
import random
import secrets

import structlog
from msgspec import Struct
from redis import ConnectionError as RedisConnectionError
from redis import RedisError
from redis.asyncio import Redis
from redis.asyncio.client import PubSub

from potluck.live.listeners import Listeners
from potluck.live.redis_outage import Outage
from potluck.model.error import InvalidInput
from potluck.wire import codec

_CHANNEL = "potluck:wake"
_QUIET_SECONDS = 5.0
_RETRY_SECONDS = 0.2

log = structlog.get_logger()


class _Wakes(Struct, frozen=True, array_like=True):
    sender: str
    topics: list[str]


class WakeChannel:
    def __init__(self, client: Redis, listeners: Listeners, outage: Outage):
        self._client = client
        self._listeners = listeners
        self._outage = outage
        self._name = secrets.token_hex(8)
        self._unsent: set[str] = set()
        self._has_unsent = asyncio.Event()
        self._is_subscribed = asyncio.Event()
        self._is_closing = False
        self._receiver: asyncio.Task[None] | None = None
        self._sender: asyncio.Task[None] | None = None

    async def open(self, timeout_seconds: float) -> None:
        """Returns when it is subscribed, or after the timeout: then it keeps trying."""
        self._receiver = asyncio.create_task(self._receive_forever())
        self._sender = asyncio.create_task(self._send_until_closing())
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._is_subscribed.wait()
        except TimeoutError:
            self._outage.note(RedisConnectionError("no subscription yet"))

    def send(self, topic: str) -> None:
        self._unsent.add(topic)
        self._has_unsent.set()

    async def close(self) -> None:
        self._is_closing = True
        self._has_unsent.set()
        if self._sender is not None:
            await self._sender  # it ends by itself, after the last message
        if self._receiver is not None:
            await _end(self._receiver)

    async def _send_until_closing(self) -> None:
        while not self._is_closing:
            await self._has_unsent.wait()
            await self._send_gathered()

    async def _send_gathered(self) -> None:
        topics, self._unsent = self._unsent, set()
        self._has_unsent.clear()
        if topics:
            message = codec.encode_packed(_Wakes(self._name, sorted(topics)))
            await self._outage.call_or_default(lambda: self._client.publish(_CHANNEL, message), 0)

    async def _receive_forever(self) -> None:
        while True:
            try:
                async with self._client.pubsub() as subscription:
                    await subscription.subscribe(_CHANNEL)
                    await self._receive(subscription)
            except (RedisError, OSError) as error:
                self._outage.note(error)
            # Instances that lost the same Redis should not all return at the same moment.
            await asyncio.sleep(_RETRY_SECONDS * random.uniform(0.5, 1.5))

    async def _receive(self, subscription: PubSub) -> None:
        is_asked = False
        while True:
            message = await subscription.get_message(timeout=_QUIET_SECONDS)
            if message is not None:
                is_asked = False
                self._take(message["type"], message["data"])
            elif is_asked:  # a connection can be dead without an error
                raise RedisConnectionError("no answer to a ping")
            else:
                is_asked = True
                await subscription.ping()

    def _take(self, kind: str, data: bytes) -> None:
        if kind == "subscribe":
            self._is_subscribed.set()
            self._listeners.wake_all()
        elif kind == "message":
            self._wake_listeners(data)

    def _wake_listeners(self, data: bytes) -> None:
        try:
            wakes = codec.decode_packed(data, _Wakes)
        except InvalidInput:
            log.warning("ignored an invalid wake-up in Redis")
            return
        if wakes.sender != self._name:  # our own listeners were woken directly
            for topic in wakes.topics:
                self._listeners.wake(topic)


async def _end(task: asyncio.Task[None]) -> None:
    """Cancels until the task ends: a connecting client may swallow the first cancellation."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=0.1)
