"""Depend: what comes after others is let go when all of them succeeded, or called off.

Whoever ends a task that others wait for writes down how; here the leader acts on that, a batch at a
time, so that rounds have their turn. A chain falls as a whole.
"""

from potluck.model.ids import TaskId
from potluck.model.task import EndReason, TaskState
from potluck.server.flow.notify.notify import queue_end_event, record_events
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.scheduler import leader
from potluck.store.scheduler.leader import Leadership
from potluck.store.tasks import dependencies, tasks
from potluck.store.tasks.dependencies import Decided

_BATCH = 1000
_MOST_FALLEN = 5000


async def resolve_dependencies_once(services: Services, leadership: Leadership) -> int:
    """Answers how many waits are over. Unless that is none, there may be more."""
    async with services.database.transaction() as connection:
        told = await dependencies.decided(connection, _BATCH)
        if not told or not await leader.holds(connection, leadership):
            return 0
        doomed = {each.task_id for each in told if each.outcome is not TaskState.SUCCEEDED}
        told += await dependencies.fallen(connection, sorted(doomed), _MOST_FALLEN)
        await dependencies.release(connection, told)
        await cancel_dependents(connection, told)
    return len(told)


async def cancel_dependents(connection: Connection, told: list[Decided]) -> None:
    """Those that came after one that did not succeed."""
    details: dict[TaskId, str] = {}
    for each in told:
        if each.outcome is not TaskState.SUCCEEDED:
            sentence = f"{each.after_id}, which it was to come after, has {_ENDED[each.outcome]}."
            details.setdefault(each.task_id, sentence)
    how = TaskState.CANCELLED, EndReason.DEPENDENCY
    ended = await tasks.end_queued(connection, details, *how)
    await record_events(
        connection, *(queue_end_event(owner, task_id, *how) for task_id, owner in ended)
    )


_ENDED = {
    TaskState.FAILED: "failed",
    TaskState.CANCELLED: "been cancelled",
    TaskState.EXPIRED: "expired",
}
