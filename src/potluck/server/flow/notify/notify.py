"""Notify: the outbox. An event is written in the transaction of its cause, and announced later."""

from collections.abc import Sequence

from msgspec import Struct

from potluck.model.event import EventKind
from potluck.model.ids import AccountId, TaskId
from potluck.model.task import EndReason, TaskState
from potluck.server import topics
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.events import outbox
from potluck.store.events.outbox import Event, PlacedEvent

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


async def notify_once(services: Services, announced: int) -> OutboxBatch:
    """Places new events in order, and wakes their followers.

    Pass the returned place as `announced` to the next call, which stores it. At least once: after a
    restart, events are announced again from the stored place; a spurious wake-up finds nothing new.
    """
    async with services.database.statement() as connection:
        placed = await outbox.place_events(connection, BATCH, announced)
    services.metrics.work.count(placed)
    await _wake(services, placed)
    return OutboxBatch(len(placed), placed[-1].place if placed else announced)


async def resume_outbox(services: Services) -> OutboxBatch:
    """Announces events that an earlier leader placed but may not have announced."""
    async with services.database.statement() as connection:
        unannounced = await outbox.list_unannounced(connection, BATCH)
    await _wake(services, unannounced)
    return OutboxBatch(len(unannounced), unannounced[-1].place if unannounced else 0)


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
        await services.live.wake(topics.WEBHOOKS)
