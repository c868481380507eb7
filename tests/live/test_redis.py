"""What only Redis can do: reach other instances, and go away."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import redis.asyncio

from potluck.live.redis import RedisLive, check_redis
from potluck.model.error import BadSettings, Unavailable
from tests.redis_server import RedisServer

SOON_SECONDS = 10.0


@pytest.fixture
async def pair(own_redis: RedisServer) -> AsyncIterator[tuple[RedisLive, RedisLive]]:
    """Two instances of one server."""
    first, other = await RedisLive.connect(own_redis.url), await RedisLive.connect(own_redis.url)
    yield first, other
    await first.close()
    await other.close()


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    deadline = time.monotonic() + SOON_SECONDS
    while not await condition():
        assert time.monotonic() < deadline, "it did not become true"
        await asyncio.sleep(0.01)


async def can_put(live: RedisLive, key: str) -> bool:
    await live.put(key, b"here", 60)
    return await live.get(key) == b"here"


async def test_a_wake_reaches_the_other_instance(pair: tuple[RedisLive, RedisLive]) -> None:
    first, other = pair
    async with other.listen("task:1") as listener:
        for _ in range(3):
            await first.wake("task:1")
            assert await listener.wait(SOON_SECONDS)


async def test_a_thousand_topics_at_once_all_arrive(pair: tuple[RedisLive, RedisLive]) -> None:
    first, other = pair
    topics = [f"task:{number}" for number in range(1_000)]
    async with asyncio.TaskGroup() as group:
        listening_count = asyncio.Semaphore(0)

        async def hear(topic: str) -> None:
            async with other.listen(topic) as listener:
                listening_count.release()
                assert await listener.wait(SOON_SECONDS)

        for topic in topics:
            group.create_task(hear(topic))
        for _ in topics:
            await listening_count.acquire()
        for topic in topics:
            await first.wake(topic)


async def test_the_last_wake_before_closing_is_sent(
    pair: tuple[RedisLive, RedisLive], own_redis: RedisServer
) -> None:
    closing_live = await RedisLive.connect(own_redis.url)
    async with pair[0].listen("schedule") as listener:
        await closing_live.wake("schedule")
        await closing_live.close()
        assert await listener.wait(SOON_SECONDS)


async def test_values_are_shared(pair: tuple[RedisLive, RedisLive]) -> None:
    first, other = pair
    await first.put("reason", b"no GPU", 60)
    assert await other.get("reason") == b"no GPU"
    await first.append("samples", b"1", 3, 60)
    await other.append("samples", b"2", 3, 60)
    assert await first.series("samples") == [b"1", b"2"]


async def test_without_redis_everything_goes_on(
    pair: tuple[RedisLive, RedisLive], own_redis: RedisServer
) -> None:
    first, _ = pair
    await first.put("reason", b"no GPU", 60)
    own_redis.kill()
    started = time.monotonic()
    async with first.listen("task:1") as listener:
        assert not await first.ping()
        assert await first.get("reason") is None
        assert await first.get_many(["reason", "other"]) == [None, None]
        await first.put("reason", b"no GPU", 60)
        await first.drop("reason")
        await first.append("samples", b"1", 3, 60)
        assert await first.series("samples") == []
        await first.wake("task:1")
        assert await listener.wait(SOON_SECONDS), "its own listeners need no Redis"
        assert not await listener.wait(0.02)
    assert time.monotonic() - started < 5


async def test_a_frozen_redis_delays_no_request_for_long(
    pair: tuple[RedisLive, RedisLive], own_redis: RedisServer
) -> None:
    first, _ = pair
    with own_redis.frozen():
        started = time.monotonic()
        for _ in range(100):
            assert await first.get("reason") is None
        assert time.monotonic() - started < 5
    await until(lambda: can_put(first, "reason"))


async def test_a_restarted_redis_is_used_again(
    pair: tuple[RedisLive, RedisLive], own_redis: RedisServer
) -> None:
    first, other = pair
    async with other.listen("task:1") as listener:
        own_redis.kill()
        await until(lambda: is_down(first))
        own_redis.start()
        assert await listener.wait(SOON_SECONDS), "what was missed meanwhile is looked for once"
        await until(lambda: can_put(first, "reason"))
        await first.wake("task:1")
        assert await listener.wait(SOON_SECONDS)
    assert await first.ping()


async def is_down(live: RedisLive) -> bool:
    return not await live.ping()


async def test_flushall_costs_nothing_but_a_moment(
    pair: tuple[RedisLive, RedisLive], own_redis: RedisServer
) -> None:
    first, other = pair
    await first.put("reason", b"no GPU", 60)
    async with other.listen("task:1") as listener:
        own_redis.flush()
        assert await first.get("reason") is None
        assert await can_put(first, "reason")
        await first.wake("task:1")
        assert await listener.wait(SOON_SECONDS)


async def test_a_connection_can_be_made_before_redis_starts(own_redis: RedisServer) -> None:
    own_redis.kill()
    live = await RedisLive.connect(own_redis.url)
    try:
        assert not await live.ping()
        own_redis.start()
        await until(lambda: can_put(live, "reason"))
    finally:
        await live.close()


async def test_a_stranger_s_message_is_ignored(
    pair: tuple[RedisLive, RedisLive], own_redis: RedisServer
) -> None:
    first, other = pair
    async with redis.asyncio.Redis.from_url(own_redis.url) as stranger:
        await stranger.publish("potluck:wake", b"\xff not ours")
    async with other.listen("task:1") as listener:
        await first.wake("task:1")
        assert await listener.wait(SOON_SECONDS)


async def test_an_address_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(BadSettings, match="Redis address"):
        await RedisLive.connect("http://localhost")


async def test_the_password_of_an_address_that_makes_no_sense_is_not_in_the_sentence() -> None:
    with pytest.raises(BadSettings) as raised:
        await RedisLive.connect("redis://:secret/x@localhost/0")
    assert "secret" not in raised.value.detail and raised.value.__cause__ is None


async def test_unreachable_is_distinguished_from_refused(own_redis: RedisServer) -> None:
    """A starting server waits for the first, and not for the second."""
    await check_redis(own_redis.url)
    with pytest.raises(BadSettings, match="out of range"):
        await check_redis(f"{own_redis.url}?db=999")
    async with redis.asyncio.Redis.from_url(own_redis.url) as client:
        await client.config_set("requirepass", "right")
    for url in (own_redis.url, f"{own_redis.url}?password=wrong"):
        with pytest.raises(BadSettings, match="refuses the address"):
            await check_redis(url)
    await check_redis(f"{own_redis.url}?password=right")
    own_redis.kill()
    with pytest.raises(Unavailable, match="No server answers"):
        await check_redis(own_redis.url)
