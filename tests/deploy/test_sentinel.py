"""Redis Sentinel: after a fail-over the live state is that of the new primary."""

from pathlib import Path

import pytest

from potluck.live.redis import RedisLive, check_redis
from potluck.live.redis_client import make_client
from potluck.model.error import BadSettings, Unavailable
from tests.deploy.sentinels import watched_redis


async def test_a_fail_over_is_followed(tmp_path: Path) -> None:
    """Calls return defaults until the replica is the primary; none raises."""
    with watched_redis(tmp_path) as redis:
        await check_redis(redis.url)
        first_live, second_live = (
            await RedisLive.connect(redis.url),
            await RedisLive.connect(redis.url),
        )
        try:
            await first_live.put("before", b"1", 60)
            assert await second_live.get("before") == b"1"
            redis.kill_primary()
            async with second_live.listen("topic") as listener:
                while not (await first_live.ping() and await second_live.ping()):
                    await listener.wait(0.05)
                assert redis.primary_port() == redis.ports[1]
                await first_live.put("after", b"2", 60)
                assert await second_live.get("after") == b"2"
                await listener.wait(0)
                # Woken through the new primary, once its channel is subscribed again.
                while not await listener.wait(0.2):
                    await first_live.wake("topic")
        finally:
            await first_live.close()
            await second_live.close()


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://127.0.0.1:26379",
        "redis+sentinel://127.0.0.1:port/potluck",
        "redis+sentinel://one,,two/potluck",
        "redis+sentinel://one/potluck/first",
        "redis+sentinel://one/potluck?password",
        "sentinel://user:word@one/potluck",
    ],
)
def test_an_address_that_cannot_be_read_is_a_sentence(url: str) -> None:
    with pytest.raises(BadSettings, match="not valid") as raised:
        make_client(url)
    assert "word" not in str(raised.value)


async def test_an_address_says_how_to_sign_in() -> None:
    client = make_client(
        "rediss+sentinel://ada:p%40ss@one,two:1/potluck/3"
        "?sentinel_password=other&ssl_ca_certs=/ca.pem&socket_timeout=2"
    )
    primary = client.primary.connection_pool.connection_kwargs
    assert (primary["username"], primary["password"], primary["db"]) == ("ada", "p@ss", 3)
    first, second = (sentinel.connection_pool.connection_kwargs for sentinel in client.sentinels)
    assert (first["host"], first["port"], first["password"]) == ("one", 26_379, "other")
    assert (second["host"], second["port"], second["username"]) == ("two", 1, None)
    assert first["ssl_ca_certs"] == primary["ssl_ca_certs"] == "/ca.pem"
    await client.close()


async def test_sentinels_that_do_not_answer_are_waited_for() -> None:
    with pytest.raises(Unavailable):
        await check_redis("redis+sentinel://127.0.0.1:1/potluck")
