"""Notify: the outbox. A fact is written with what made it true, and told afterwards."""

from collections.abc import Sequence

from potluck.model.event import EventKind
from potluck.model.ids import AccountId, TaskId
from potluck.model.task import EndReason, TaskState
from potluck.server import topics
from potluck.server.parts import Parts
from potluck.store import events
from potluck.store.database import Connection
from potluck.store.events import Event

BATCH = 1000


async def tell(connection: Connection, *happened: Event) -> None:
    """Somebody will be told, if and only if this transaction commits."""
    await events.append(connection, happened)


def ended_in_queue(
    account_id: AccountId, task_id: TaskId, state: TaskState, reason: EndReason
) -> Event:
    """A task ended without an attempt that would have told it."""
    data = {"state": state, "reason": reason}
    return Event(account_id, EventKind.TASK_FINISHED, task_id, data=data)


async def hurry(parts: Parts) -> None:
    """Something changed: there may be something to tell, and something to place."""
    await parts.live.wake(topics.OUTBOX)
    await parts.live.wake(topics.SCHEDULE)


async def notify_once(parts: Parts, told: Sequence[int] = ()) -> list[int]:
    """Wakes whoever follows what has happened since; answers which events that were.

    Those are to be given back as `told`, by which they are marked when it is next looked. At least
    once: a crash before the mark tells it again, and a follower that is woken in vain looks and
    finds nothing new.
    """
    async with parts.database.statement() as connection:
        pending = await events.undelivered(connection, BATCH, told)
    for task_id in {each.event.task_id for each in pending} - {None}:
        assert task_id is not None
        await parts.live.wake(topics.task(task_id))
    for each in pending:
        if each.event.kind is EventKind.TASK_FINISHED and each.event.task_id is not None:
            await parts.live.wake(topics.results(each.event.task_id))
    return [each.id for each in pending]
