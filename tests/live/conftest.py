"""Both drivers of `live`: what it promises holds whichever is behind it."""

from collections.abc import AsyncIterator

import pytest

from potluck.live.in_process import InProcessLive
from potluck.live.interface import Live
from potluck.live.redis import RedisLive


@pytest.fixture(params=["in_process", "redis"])
async def live(request: pytest.FixtureRequest) -> AsyncIterator[Live]:
    if request.param == "in_process":
        driver: Live = InProcessLive()
    else:
        driver = await RedisLive.connect(request.getfixturevalue("redis_url"))
    yield driver
    await driver.close()
