"""Notify: the outbox. An event is written in the transaction of its cause, and announced later."""

from collections.abc import Sequence

from msgspec import Struct

from potluck import __version__
from potluck.model.event import EventKind
from potluck.model.ids import AccountId, TaskId
from potluck.model.task import EndReason, TaskState
from potluck.server import topics
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.events import outbox
from potluck.store.events.outbox import Event, PlacedEvent, Unannounced

BATCH = 1000


async def record_events(connection: Connection, *events: Event) -> None:
    """The events are announced if and only if this transaction commits."""
    await outbox.append(connection, events)


def queue_end_event(
    account_id: AccountId, task_id: TaskId, state: TaskState, reason: EndReason
) -> Event:
    """For a task that ended without an attempt."""
    data = {"state": state, "reason": reason}
    return Event(account_id, EventKind.TASK_FINISHED, task_id, data=data)


async def wake_leader(services: Services) -> None:
    """Wakes the leader: there may be events to announce and tasks to place."""
    await services.live.wake(topics.OUTBOX)
    await services.live.wake(topics.SCHEDULE)


class OutboxBatch(Struct, frozen=True):
    count: int
    place: int  # up to which followers were woken
    has_more: bool  # whether events are left, which are announced soon


async def notify_once(services: Services, announced: int) -> OutboxBatch:
    """Wakes the followers of new events.

    Pass the returned place as `announced` to the next call. At least once: after a restart, events
    are announced again from the stored place; a spurious wake-up finds nothing new.
    """
    unannounced = await _read_unannounced(services, announced)
    if unannounced.is_mode_outdated or unannounced.has_unplaced:
        await _place_events(services, unannounced)
        unannounced = await _read_unannounced(services, announced)
    services.metrics.work.count(unannounced.events)
    await _wake(services, unannounced.events)
    return OutboxBatch(
        len(unannounced.events),
        unannounced.announced,
        unannounced.has_unplaced or unannounced.has_more,
    )


async def _read_unannounced(services: Services, announced: int) -> Unannounced:
    async with services.database.statement() as connection:
        return await outbox.read_unannounced(connection, announced, __version__, BATCH)


async def _place_events(services: Services, unannounced: Unannounced) -> None:
    """For events that were inserted while instances of several versions run."""
    if unannounced.is_mode_outdated:
        async with services.database.statement() as connection:
            await outbox.change_mode(connection, __version__)
    if unannounced.has_unplaced:
        async with services.database.statement() as connection:
            await outbox.place_events(connection, BATCH)


async def record_announced(services: Services, place: int) -> None:
    """A later leader continues from here."""
    async with services.database.statement() as connection:
        await outbox.record_announced(connection, place)


async def _wake(services: Services, placed: Sequence[PlacedEvent]) -> None:
    events = [item.event for item in placed]
    tasks = {event.task_id for event in events if event.task_id is not None}
    ended = {
        event.task_id
        for event in events
        if event.kind is EventKind.TASK_FINISHED and event.task_id is not None
    }
    for topic in (
        *map(topics.task, sorted(tasks)),
        *map(topics.results, sorted(ended)),
        *map(topics.account, sorted({event.account_id for event in events})),
    ):
        await services.live.wake(topic)
    if placed:
        await services.live.wake(topics.EVENTS)
    if any(item.has_webhook for item in placed):
        await services.live.wake(topics.WEBHOOKS)
