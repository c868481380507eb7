"""A server that is away for hours: how often it is tried, and what that keeps in memory.

Nobody listens at the address, and time passes as the pauses between tries do.
"""

import gc
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from unittest import mock

from msgspec.structs import replace

from potluck.provider.announcement import Announcement, ServerSilent
from potluck.provider.server.server_client import NodeServerClient, open_node_client
from potluck.wire.provider import Heartbeat, RegisterNode
from tests.processes import free_port
from tests.provider.builders import KEY, settings_for
from tests.provider.server.connected_client import REGISTRATION

HOUR_SECONDS = 3_600.0
LONGEST_SECONDS = 15.0


class Away(Exception):
    """An hour is over."""


class Hour:
    """Counts the pauses of one duty until they add up to an hour, or less."""

    def __init__(self, seconds: float) -> None:
        self.pauses: list[float] = []
        self._seconds = seconds

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if sum(self.pauses) > self._seconds:
            raise Away


@asynccontextmanager
async def nobody(announcements: list[Announcement]) -> AsyncIterator[NodeServerClient]:
    """A link of a node that is known, to a server that is gone; with the usual pauses."""
    url = f"http://127.0.0.1:{free_port()}"
    usual = {"back_off_first_seconds": 0.25, "back_off_longest_seconds": LONGEST_SECONDS}
    settings = replace(settings_for(url, Path("/nonexistent")), **usual)
    registration: RegisterNode = replace(REGISTRATION, node_id="node_01j00000000000000000000000")
    async with open_node_client(
        settings, KEY, lambda: registration, announcements.append, lambda _: None
    ) as link:
        yield link


async def an_hour(link: NodeServerClient, seconds: float = HOUR_SECONDS) -> list[float]:
    hour = Hour(seconds)
    with mock.patch("potluck.provider.server.server_client.asyncio.sleep", hour.sleep):
        try:
            await link.heartbeat(Heartbeat)
        except Away:
            return hour.pauses
    raise AssertionError("somebody answered")


async def test_the_tries_of_an_hour_are_few_and_never_in_step() -> None:
    announcements: list[Announcement] = []
    async with nobody(announcements) as link:
        first, second = await an_hour(link), await an_hour(link)
    for pauses in (first, second):
        assert HOUR_SECONDS / LONGEST_SECONDS <= len(pauses) < 4 * HOUR_SECONDS / LONGEST_SECONDS
        assert max(pauses) <= LONGEST_SECONDS
        # Full jitter: anything from nothing to the longest pause, and no two alike.
        later_pauses = pauses[20:]
        assert (
            min(later_pauses) < 0.2 * LONGEST_SECONDS and max(later_pauses) > 0.8 * LONGEST_SECONDS
        )
        assert len(set(later_pauses)) == len(later_pauses)
    assert first[:10] != second[:10], "two nodes that lost it together do not come back together"
    assert len(announcements) <= 2, "and the person at the screen is not told each time"
    assert isinstance(announcements[0], ServerSilent)


async def test_tries_without_end_cost_no_memory() -> None:
    async with nobody([]) as link:
        await an_hour(link, HOUR_SECONDS / 10)
        tracemalloc.start()
        try:
            before = _in_use()
            await an_hour(link, HOUR_SECONDS / 5)
            assert _in_use() - before < 50_000
        finally:
            tracemalloc.stop()


def _in_use() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
