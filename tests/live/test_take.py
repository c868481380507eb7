"""Token buckets: one contract for both drivers, and what the one in process promises besides."""

import asyncio
import time

from hypothesis import given
from hypothesis import strategies as st

from potluck.live.interface import Live
from potluck.live.redis import RedisLive
from potluck.live.token_buckets import Buckets
from tests.redis_server import RedisServer


async def test_a_burst_is_let_through_and_no_more(live: Live) -> None:
    waits = [await live.take("calls", 0.1, 5) for _ in range(7)]
    assert waits[:5] == [0.0] * 5
    assert all(9 < wait <= 10 for wait in waits[5:]), "a refusal takes nothing"


async def test_a_look_takes_nothing(live: Live) -> None:
    assert [await live.peek("calls", 0.1, 2) for _ in range(5)] == [0.0] * 5
    assert [await live.take("calls", 0.1, 2) for _ in range(2)] == [0.0] * 2
    assert 9 < await live.peek("calls", 0.1, 2) <= 10
    assert await live.peek("other", 0.1, 2) == 0


async def test_the_bucket_fills_again(live: Live) -> None:
    for _ in range(5):
        await live.take("calls", 5, 5)
    wait_seconds = await live.take("calls", 5, 5)
    assert 0 < wait_seconds <= 0.2
    await asyncio.sleep(wait_seconds + 0.005)
    assert await live.take("calls", 5, 5) == 0


async def test_keys_have_a_bucket_each(live: Live) -> None:
    assert await live.take("one", 0.1, 1) == 0
    assert await live.take("one", 0.1, 1) > 0
    assert await live.take("other", 0.1, 1) == 0


async def test_many_at_once_get_no_more_than_the_burst(live: Live) -> None:
    waits = await asyncio.gather(*(live.take("calls", 0.01, 20) for _ in range(100)))
    assert waits.count(0.0) == 20


async def test_two_instances_share_a_bucket(redis_url: str) -> None:
    first, other = await RedisLive.connect(redis_url), await RedisLive.connect(redis_url)
    try:
        waits = [await live.take("calls", 0.01, 4) for _ in range(4) for live in (first, other)]
        assert waits.count(0.0) == 4
    finally:
        await first.close()
        await other.close()


async def test_without_redis_an_instance_counts_alone(own_redis: RedisServer) -> None:
    live = await RedisLive.connect(own_redis.url)
    try:
        own_redis.kill()
        started = time.monotonic()
        waits = [await live.take("calls", 0.01, 4) for _ in range(20)]
        assert waits.count(0.0) == 4
        assert await live.peek("calls", 0.01, 4) > 0
        assert time.monotonic() - started < 5
    finally:
        await live.close()


async def test_a_script_that_redis_forgot_is_sent_again(own_redis: RedisServer) -> None:
    live = await RedisLive.connect(own_redis.url)
    try:
        assert await live.take("calls", 0.01, 1) == 0
        own_redis.kill()
        own_redis.start()
        await asyncio.sleep(0.6)  # it is not asked again at once after a failure
        assert await live.take("calls", 0.01, 1) == 0
        assert await live.take("calls", 0.01, 1) > 0
    finally:
        await live.close()


def test_memory_is_bounded_by_who_was_here_just_now() -> None:
    """Many addresses, one call each: their buckets are full again after a tenth of a second."""
    buckets = Buckets()
    for number in range(100_000):
        buckets.take(f"address {number}", 10.0, 5, number / 10_000)
    assert len(buckets) < 2_000


@given(st.lists(st.floats(0, 0.5), max_size=200), st.floats(0.5, 50), st.integers(1, 20))
def test_never_more_than_the_burst_and_what_flowed_in(
    pauses: list[float], per_second: float, burst: int
) -> None:
    buckets, now, taken_count = Buckets(), 0.0, 0
    for pause in pauses:
        now += pause
        taken_count += buckets.take("calls", per_second, burst, now) == 0
        assert taken_count <= burst + now * per_second + 1e-6


@given(st.integers(1, 20), st.floats(0.5, 50))
def test_a_client_that_waits_as_told_succeeds(burst: int, per_second: float) -> None:
    buckets, now = Buckets(), 0.0
    for _ in range(50):
        wait_seconds = buckets.take("calls", per_second, burst, now)
        if wait_seconds:
            now += wait_seconds + 1e-9
            assert buckets.take("calls", per_second, burst, now) == 0
