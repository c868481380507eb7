"""Values that are kept for moments: dropped by a wake-up, by time, and when there are too many."""

from collections.abc import AsyncIterator

import pytest

from potluck.live.in_process import InProcessLive
from potluck.live.interface import Listener
from potluck.live.value_cache import ValueCache


class Source:
    """The truth, and how often it was read."""

    def __init__(self) -> None:
        self.value: int | None = 1
        self.reads = 0

    async def read(self) -> int | None:
        self.reads += 1
        return self.value


@pytest.fixture
async def live() -> AsyncIterator[InProcessLive]:
    opened = InProcessLive()
    yield opened
    await opened.close()


@pytest.fixture
async def listener(live: InProcessLive) -> AsyncIterator[Listener]:
    async with live.listen("changes") as opened:
        yield opened


async def test_a_value_is_read_once_until_it_changes(
    live: InProcessLive, listener: Listener
) -> None:
    cache, source = ValueCache[int | None](listener, 2.0), Source()
    for _ in range(3):
        assert await cache.load("a", source.read) == 1
    assert source.reads == 1
    source.value = 2
    await live.wake("other things")
    assert await cache.load("a", source.read) == 1
    await live.wake("changes")
    assert await cache.load("a", source.read) == 2


async def test_without_a_wake_up_it_is_read_again_after_its_time(listener: Listener) -> None:
    now = 0.0
    cache, source = ValueCache[int | None](listener, 2.0, clock=lambda: now), Source()
    await cache.load("a", source.read)
    now = 1.9
    await cache.load("a", source.read)
    assert source.reads == 1
    now = 2.0
    await cache.load("a", source.read)
    assert source.reads == 2


async def test_a_value_changed_during_its_read_is_not_cached(
    live: InProcessLive, listener: Listener
) -> None:
    """The change may be committed after the read has looked."""
    cache, source = ValueCache[int | None](listener, 2.0), Source()

    async def read_and_change() -> int | None:
        await live.wake("changes")
        # Another caller takes the wake-up.
        await cache.load("b", source.read)
        return 1

    assert await cache.load("a", read_and_change) == 1
    source.value = 2
    assert await cache.load("a", source.read) == 2


async def test_a_missing_value_is_not_cached(listener: Listener) -> None:
    cache, source = ValueCache[int | None](listener, 2.0), Source()
    source.value = None
    assert await cache.load("a", source.read) is None
    source.value = 1
    assert await cache.load("a", source.read) == 1


async def test_the_number_of_values_is_bounded(listener: Listener) -> None:
    cache, source = ValueCache[int | None](listener, 2.0, most=2), Source()
    for key in ("a", "b", "c", "b", "c", "a"):
        await cache.load(key, source.read)
    assert source.reads == 4


@pytest.mark.parametrize("seconds", [0.0, 2.0])
async def test_without_a_listener_or_when_disabled_nothing_is_cached(
    listener: Listener, seconds: float
) -> None:
    cache = ValueCache[int | None](None if seconds else listener, seconds)
    source = Source()
    for _ in range(2):
        await cache.load("a", source.read)
    assert source.reads == 2
