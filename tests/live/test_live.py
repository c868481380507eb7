"""One contract for both drivers: what `live` promises, whichever is behind it."""

import asyncio
import time

from potluck.live.in_process import InProcessLive
from potluck.live.interface import MOST_MESSAGES, Live

NEVER_SECONDS = 0.05  # how long a wait lasts that should find nothing
SOON_SECONDS = 10.0


async def test_a_wake_ends_a_wait(live: Live) -> None:
    async with live.listen("task:1") as listener:
        waiting = asyncio.create_task(listener.wait(SOON_SECONDS))
        await asyncio.sleep(0)
        await live.wake("task:1")
        assert await waiting


async def test_a_wake_between_two_waits_is_not_missed(live: Live) -> None:
    async with live.listen("task:1") as listener:
        await live.wake("task:1")
        assert await listener.wait(NEVER_SECONDS)
        await live.wake("task:1")
        assert await listener.wait(NEVER_SECONDS)


async def test_many_wakes_count_as_one(live: Live) -> None:
    async with live.listen("task:1") as listener:
        for _ in range(100):
            await live.wake("task:1")
        assert await listener.wait(SOON_SECONDS)
        assert not await listener.wait(NEVER_SECONDS)


async def test_another_topic_wakes_no_waiter(live: Live) -> None:
    async with live.listen("task:1", "shutdown") as listener:
        await live.wake("task:2")
        assert not await listener.wait(NEVER_SECONDS)


async def test_a_message_on_any_topic_wakes_the_listener(live: Live) -> None:
    async with live.listen("task:1", "shutdown") as listener:
        await live.wake("shutdown")
        assert await listener.wait(SOON_SECONDS)


async def test_every_listener_of_a_topic_is_woken(live: Live) -> None:
    async with live.listen("task:1") as first, live.listen("task:1") as second:
        await live.wake("task:1")
        assert await first.wait(SOON_SECONDS)
        assert await second.wait(SOON_SECONDS)


async def test_a_wake_before_the_subscription_is_not_received(live: Live) -> None:
    await live.wake("task:1")
    async with live.listen("task:1") as listener:
        assert not await listener.wait(NEVER_SECONDS)


async def test_a_value_is_kept_replaced_and_dropped(live: Live) -> None:
    await live.put("reason", b"first", 60)
    await live.put("reason", b"\x00\xff", 60)
    assert await live.get("reason") == b"\x00\xff"
    await live.drop("reason")
    assert await live.get("reason") is None
    await live.drop("reason")


async def test_a_value_expires(live: Live) -> None:
    await live.put("reason", b"gone soon", 0.02)
    deadline = time.monotonic() + SOON_SECONDS
    while await live.get("reason") is not None:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


async def test_replacing_a_value_renews_its_time(live: Live) -> None:
    await live.put("reason", b"short", 0.02)
    await live.put("reason", b"long", 60)
    await live.put("clock", b"", 0.05)
    while await live.get("clock") is not None:
        await asyncio.sleep(0.005)
    await live.put("clock", b"", 60)
    assert await live.get("reason") == b"long"


async def test_many_values_come_in_order(live: Live) -> None:
    await live.put("a", b"1", 60)
    await live.put("c", b"3", 60)
    assert await live.get_many(["c", "b", "a"]) == [b"3", None, b"1"]
    assert await live.get_many([]) == []


async def test_a_series_keeps_its_newest_in_order(live: Live) -> None:
    for number in range(5):
        await live.append("samples", str(number).encode(), 3, 60)
    await live.append("others", b"\x00\xff", 3, 60)
    assert await live.series("samples") == [b"2", b"3", b"4"]
    assert await live.series("others") == [b"\x00\xff"]
    assert await live.series("none") == []


async def test_a_series_that_does_not_grow_expires(live: Live) -> None:
    await live.append("samples", b"old", 3, 0.02)
    deadline = time.monotonic() + SOON_SECONDS
    while await live.series("samples"):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)
    await live.append("samples", b"new", 3, 60)
    assert await live.series("samples") == [b"new"], "what was gone does not come back"


async def test_growing_renews_the_time_of_a_series(live: Live) -> None:
    await live.append("samples", b"1", 3, 0.02)
    await live.append("samples", b"2", 3, 60)
    await live.append("clock", b"", 3, 0.05)
    while await live.series("clock"):
        await asyncio.sleep(0.005)
    await live.append("clock", b"", 3, 60)
    assert await live.series("samples") == [b"1", b"2"]


async def test_ping_succeeds(live: Live) -> None:
    assert await live.ping()


async def test_expired_values_leave_the_memory() -> None:
    live = InProcessLive()
    for number in range(10_000):
        await live.put(f"{number}", b"", -1)
    assert len(live._values) < 50
    assert len(live._expiries) < 50


async def test_expired_series_leave_the_memory() -> None:
    live = InProcessLive()
    for number in range(1_000):
        await live.append(f"{number}", b"", 3, -1)
    assert len(live._series) < 5
    assert len(live._series._order) < 5


async def test_topics_without_listeners_leave_the_memory() -> None:
    live = InProcessLive()
    for number in range(100):
        async with live.listen(f"task:{number}", "shutdown"):
            pass
    assert not live._listeners._by_topic


async def test_a_message_goes_to_one_collector_in_order(live: Live) -> None:
    await live.post("questions", b"one")
    await live.post("questions", b"two")
    await live.post("others", b"three")
    assert await live.collect("questions") == [b"one", b"two"]
    assert await live.collect("questions") == []
    assert await live.collect("others") == [b"three"]


async def test_an_outbox_without_a_reader_stays_small(live: Live) -> None:
    for number in range(MOST_MESSAGES + 5):
        await live.post("questions", str(number).encode())
    messages = await live.collect("questions")
    assert (len(messages), messages[0], messages[-1]) == (MOST_MESSAGES, b"5", b"1004")
