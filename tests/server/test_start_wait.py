"""Waiting at the start for what is away."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from potluck.model.error import BadSettings, Unavailable
from potluck.server.start_wait import StartWait, StoppedWaiting


class Announced(list[str]):
    def add(self, service: str, detail: str) -> None:
        self.append(f"{service}: {detail}")


def failing(times: int, error: Exception) -> Callable[[], Awaitable[None]]:
    """A service that is there after so many checks."""
    failures_left = times

    async def check() -> None:
        nonlocal failures_left
        failures_left -= 1
        if failures_left >= 0:
            raise error

    return check


async def test_the_wait_repeats_until_the_service_is_available_and_announces_once() -> None:
    announcements = Announced()
    wait = StartWait(60, asyncio.Event(), announcements.add)
    await wait.until_available("Redis", failing(2, Unavailable("away")))
    assert announcements == ["Redis: away"]
    await wait.until_available("Redis", failing(0, Unavailable("away")))
    assert announcements == ["Redis: away"], "what is there is not worth a word"


async def test_permanent_errors_are_not_waited_for() -> None:
    wait = StartWait(60, asyncio.Event(), Announced().add)
    with pytest.raises(BadSettings):
        await wait.until_available("Redis", failing(1, BadSettings("a wrong password")))


async def test_the_time_is_limited() -> None:
    wait = StartWait(0.1, asyncio.Event(), Announced().add)
    with pytest.raises(Unavailable, match=r"away. The server waited 0.1 s for it.") as error_info:
        await wait.until_available("Redis", failing(1_000_000, Unavailable("away.", "Start it.")))
    assert error_info.value.hint == "Start it."


async def test_a_stop_ends_a_check_that_never_ends_and_the_check_is_over() -> None:
    stop, ends = asyncio.Event(), []

    async def check() -> None:
        asyncio.get_running_loop().call_soon(stop.set)
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("cancelled")

    with pytest.raises(StoppedWaiting):
        await StartWait(60, stop, Announced().add).until_available("PostgreSQL", check)
    assert ends == ["cancelled"]


async def test_a_stop_ends_a_pause_too() -> None:
    stop = asyncio.Event()
    wait = StartWait(60, stop, lambda *_: stop.set())
    with pytest.raises(StoppedWaiting):
        await wait.until_available("PostgreSQL", failing(1_000_000, Unavailable("away")))
