"""Event stream: an account's events from any position on, in pages or live.

The position is a place in the order of events. A reader that continues from it misses nothing and
gets nothing twice; a gap is reported if later events have been deleted already.
"""

import time
from collections.abc import AsyncGenerator

from msgspec import Struct

from potluck.model.ids import AccountId
from potluck.server import topics
from potluck.server.services import Services
from potluck.store.events import event_list
from potluck.store.events.event_list import EventFilter, EventsAfter, PlacedView
from potluck.wire.events import EventGap, EventPage, EventView

_PAGE = 200
_DELETED = EventGap(
    "Some events after this position have been deleted.",
    "All remaining events follow. See the tasks themselves: `potluck ps`.",
)
_UNKNOWN = EventGap(
    "This position is ahead of all events here: the server's database was restored from a"
    " backup, or this is another server.",
    "Events from now on follow. See the tasks themselves: `potluck ps`.",
)


class EventStreamItem(Struct, frozen=True):
    position: int
    content: EventView | EventGap | None  # None: no events up to this position


class _Read(Struct, frozen=True):
    events: list[PlacedView]
    position: int  # up to which everything was read
    head: int
    gap: EventGap | None


async def page(
    services: Services, account_id: AccountId, selection: EventFilter, position: int, limit: int
) -> EventPage:
    """Events after the position, oldest first."""
    read = await _read_on(services, account_id, selection, position, limit)
    views = [placed.view for placed in read.events]
    return EventPage(views, str(read.position), str(read.head), read.gap)


async def newest(
    services: Services,
    account_id: AccountId,
    selection: EventFilter,
    before: int | None,
    limit: int,
) -> EventPage:
    """The latest events, or the latest before a position, newest first."""
    async with services.database.statement() as connection:
        head = await event_list.read_head(connection)
        last = head + 1 if before is None else min(before, head + 1)
        rows = await event_list.newest(connection, account_id, selection, last, limit)
    views = [placed.view for placed in rows]
    return EventPage(views, str(rows[-1].place) if len(rows) == limit else None, str(head))


async def follow(
    services: Services, account_id: AccountId, selection: EventFilter, position: int | None
) -> AsyncGenerator[EventStreamItem]:
    """From now on, if no position is given. Ends only when the server stops.

    The first item is the position, so that a stream that is cut before the first event can resume.
    Holds no database connection between reads.
    """
    quiet_seconds = services.settings.follow_poll_seconds
    shutdown_topic = topics.shutdown(services.instance)
    async with services.live.listen(topics.account(account_id), shutdown_topic) as listener:
        if position is None:
            async with services.database.statement() as connection:
                position = await event_list.read_head(connection)
        yield EventStreamItem(position, None)
        sent_at = time.monotonic()
        while not services.stopping.is_set():
            read = await _read_on(services, account_id, selection, position, _PAGE)
            for followed in _stream_items(read):
                yield followed
                sent_at = time.monotonic()
            position = read.position
            if time.monotonic() - sent_at >= quiet_seconds:
                yield EventStreamItem(position, None)
                sent_at = time.monotonic()
            if len(read.events) < _PAGE and not services.stopping.is_set():
                await listener.wait(max(0.0, sent_at + quiet_seconds - time.monotonic()))


def _stream_items(read: _Read) -> list[EventStreamItem]:
    """A gap comes before the events, with a position from which nothing is missing."""
    gap = [] if read.gap is None else [EventStreamItem(_before(read), read.gap)]
    return [*gap, *(EventStreamItem(placed.place, placed.view) for placed in read.events)]


def _before(read: _Read) -> int:
    return read.events[0].place - 1 if read.events else read.position


async def _read_on(
    services: Services, account_id: AccountId, selection: EventFilter, position: int, limit: int
) -> _Read:
    async with services.database.statement() as connection:
        read = await event_list.events_after(connection, account_id, selection, position, limit)
    last = read.head if len(read.events) < limit else read.events[-1].place
    return _Read(read.events, last, read.head, _gap(read, position))


def _gap(read: EventsAfter, position: int) -> EventGap | None:
    if position > read.head:
        return _UNKNOWN
    # A reader from position 0 gets whatever is left.
    return _DELETED if 0 < position < read.forgotten else None
