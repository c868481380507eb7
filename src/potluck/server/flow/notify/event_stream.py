"""Events: what an account is told, from any position on, page by page or as it happens.

The position is a place in the order in which events are told. Whoever reads on behind one misses
nothing and is told nothing twice; if what came next is no longer kept, that is said.
"""

import time
from collections.abc import AsyncGenerator

from msgspec import Struct

from potluck.model.ids import AccountId
from potluck.server import topics
from potluck.server.services import Services
from potluck.store.events import event_list
from potluck.store.events.event_list import Behind, EventFilter, Placed
from potluck.wire.events import EventGap, EventPage, EventView

_AT_ONCE = 200
_FORGOTTEN = EventGap(
    "Some of the events behind this position are no longer kept.",
    "What follows is all that there is. Look at the tasks themselves: `potluck ps`.",
)
_UNKNOWN = EventGap(
    "This position is ahead of all events here: the server's database was brought back from a"
    " backup, or this is another server.",
    "What follows is what happens from now on. Look at the tasks themselves: `potluck ps`.",
)


class EventStreamItem(Struct, frozen=True):
    position: int
    said: EventView | EventGap | None  # None: all is quiet up to this position


class _Read(Struct, frozen=True):
    found: list[Placed]
    position: int  # up to which there is nothing else
    head: int
    gap: EventGap | None


async def page(
    services: Services, account_id: AccountId, wanted: EventFilter, position: int, limit: int
) -> EventPage:
    """What came behind this position, oldest first."""
    read = await _read_on(services, account_id, wanted, position, limit)
    views = [each.view for each in read.found]
    return EventPage(views, str(read.position), str(read.head), read.gap)


async def newest(
    services: Services, account_id: AccountId, wanted: EventFilter, before: int | None, limit: int
) -> EventPage:
    """What came last, or before this position, newest first."""
    async with services.database.statement() as connection:
        head = await event_list.head(connection)
        last = head + 1 if before is None else min(before, head + 1)
        found = await event_list.newest(connection, account_id, wanted, last, limit)
    views = [each.view for each in found]
    return EventPage(views, str(found[-1].place) if len(found) == limit else None, str(head))


async def follow(
    services: Services, account_id: AccountId, wanted: EventFilter, position: int | None
) -> AsyncGenerator[EventStreamItem]:
    """From now on, if no position is given. Ends when the server stops, and not before.

    The first thing said is the position, so that a stream that is cut before anything has happened
    goes on from there. Between two looks it holds no connection to the database.
    """
    quiet_seconds = services.settings.follow_poll_seconds
    stopped = topics.shutdown(services.instance)
    async with services.live.listen(topics.account(account_id), stopped) as listener:
        if position is None:
            async with services.database.statement() as connection:
                position = await event_list.head(connection)
        yield EventStreamItem(position, None)
        said_at = time.monotonic()
        while not services.stopping.is_set():
            read = await _read_on(services, account_id, wanted, position, _AT_ONCE)
            for followed in _said(read):
                yield followed
                said_at = time.monotonic()
            position = read.position
            if time.monotonic() - said_at >= quiet_seconds:
                yield EventStreamItem(position, None)
                said_at = time.monotonic()
            if len(read.found) < _AT_ONCE and not services.stopping.is_set():
                await listener.wait(max(0.0, said_at + quiet_seconds - time.monotonic()))


def _said(read: _Read) -> list[EventStreamItem]:
    """A gap stands before what was found, with a position from which nothing is missing again."""
    gap = [] if read.gap is None else [EventStreamItem(_before(read), read.gap)]
    return [*gap, *(EventStreamItem(each.place, each.view) for each in read.found)]


def _before(read: _Read) -> int:
    return read.found[0].place - 1 if read.found else read.position


async def _read_on(
    services: Services, account_id: AccountId, wanted: EventFilter, position: int, limit: int
) -> _Read:
    async with services.database.statement() as connection:
        read = await event_list.behind(connection, account_id, wanted, position, limit)
    last = read.head if len(read.found) < limit else read.found[-1].place
    return _Read(read.found, last, read.head, _gap(read, position))


def _gap(read: Behind, position: int) -> EventGap | None:
    if position > read.head:
        return _UNKNOWN
    # Who asks from the very beginning asks for what there is.
    return _FORGOTTEN if 0 < position < read.forgotten else None
