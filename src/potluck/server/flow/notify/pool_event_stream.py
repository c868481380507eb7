"""Pool event stream: the events of all accounts for admins, in pages or live.

Unlike the stream of an account it is for watching: at most `MOST` events a second are sent, the
newest, and a gap says that others were left out. So a busy pool costs a watcher no more.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Final

from msgspec import Struct

from potluck.server import topics
from potluck.server.services import Services
from potluck.store.events import event_list
from potluck.store.events.event_list import PlacedPoolEvent
from potluck.wire.admin import PoolEvent, PoolEventPage
from potluck.wire.events import EventGap

MOST: Final = 50
_PACE_SECONDS: Final = 1.0
_END: Final = 2**62
_LEFT_OUT = EventGap(
    "More events happened than this stream shows.", "List them: GET /v1/pool/events."
)


class PoolStreamItem(Struct, frozen=True):
    position: int
    content: PoolEvent | EventGap | None  # None: no events up to this position


async def page(services: Services, before: int | None, limit: int) -> PoolEventPage:
    """The latest events, or the latest before a position, newest first."""
    end = _END if before is None else before
    async with services.database.statement() as connection:
        events, head = await event_list.newest_of_pool(connection, 0, end, limit)
    cursor = str(events[-1].place) if len(events) == limit else None
    return PoolEventPage([placed.view for placed in events], cursor, str(head))


async def follow(services: Services, position: int | None) -> AsyncGenerator[PoolStreamItem]:
    """From now on, if no position is given. Ends only when the server stops."""
    quiet_seconds = services.settings.follow_poll_seconds
    shutdown_topic = topics.shutdown(services.instance)
    # Woken for each batch of events that got their places.
    async with services.live.listen(topics.EVENTS, shutdown_topic) as listener:
        if position is None:
            async with services.database.statement() as connection:
                position = await event_list.read_head(connection)
        yield PoolStreamItem(position, None)
        while not services.stopping.is_set():
            read_at = time.monotonic()
            events, head = await _read(services, position)
            for item in _stream_items(events):
                yield item
            # A position ahead of all events is of a database before its backup was restored.
            position = head
            if not events:
                yield PoolStreamItem(position, None)
            await listener.wait(quiet_seconds)
            if not services.stopping.is_set():
                await asyncio.sleep(max(0.0, read_at + _PACE_SECONDS - time.monotonic()))


async def _read(services: Services, position: int) -> tuple[list[PlacedPoolEvent], int]:
    async with services.database.statement() as connection:
        return await event_list.newest_of_pool(connection, position, _END, MOST + 1)


def _stream_items(events: list[PlacedPoolEvent]) -> list[PoolStreamItem]:
    """Oldest first; a gap comes before them."""
    shown = events[:MOST][::-1]
    gap = [PoolStreamItem(shown[0].place - 1, _LEFT_OUT)] if len(events) > MOST else []
    return [*gap, *(PoolStreamItem(placed.place, placed.view) for placed in shown)]
