"""Notify: the outbox. A fact is written with what made it true, and told afterwards."""

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


async def record_events(connection: Connection, *happened: Event) -> None:
    """Somebody will be told, if and only if this transaction commits."""
    await outbox.append(connection, happened)


def queue_end_event(
    account_id: AccountId, task_id: TaskId, state: TaskState, reason: EndReason
) -> Event:
    """A task ended without an attempt that would have told it."""
    data = {"state": state, "reason": reason}
    return Event(account_id, EventKind.TASK_FINISHED, task_id, data=data)


async def hurry(services: Services) -> None:
    """Something changed: there may be something to tell, and something to place."""
    await services.live.wake(topics.OUTBOX)
    await services.live.wake(topics.SCHEDULE)


class OutboxBatch(Struct, frozen=True):
    count: int
    place: int  # up to which everybody was told


async def notify_once(services: Services, told: int) -> OutboxBatch:
    """Gives what has happened since its place in the order, and wakes whoever follows it.

    Up to where that was done is to be given back as `told`, and is noted when it is next looked. At
    least once: who begins anew tells what nobody has noted, and a follower that is woken in vain
    looks and finds nothing new.
    """
    async with services.database.statement() as connection:
        placed = await outbox.place(connection, BATCH, told)
    await _wake(services, placed)
    return OutboxBatch(len(placed), placed[-1].place if placed else told)


async def resume_outbox(services: Services) -> OutboxBatch:
    """What whoever led before has placed and perhaps told nobody."""
    async with services.database.statement() as connection:
        untold = await outbox.untold(connection, BATCH)
    await _wake(services, untold)
    return OutboxBatch(len(untold), untold[-1].place if untold else 0)


async def _wake(services: Services, placed: Sequence[PlacedEvent]) -> None:
    found = [each.event for each in placed]
    tasks = {event.task_id for event in found if event.task_id is not None}
    ended = {
        event.task_id
        for event in found
        if event.kind is EventKind.TASK_FINISHED and event.task_id is not None
    }
    for topic in (
        *map(topics.task, sorted(tasks)),
        *map(topics.results, sorted(ended)),
        *map(topics.account, sorted({event.account_id for event in found})),
    ):
        await services.live.wake(topic)
    if placed:
        await services.live.wake(topics.WEBHOOKS)
