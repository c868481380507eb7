"""Dependents: a task is released when all its dependencies succeeded, or else cancelled.

The transaction that ends a dependency records its outcome; the leader acts on it here, in batches
between rounds. A chain of dependents is cancelled as a whole.
"""

from potluck.model.ids import TaskId
from potluck.model.task import EndReason, TaskState
from potluck.server.flow.notify.notify import queue_end_event, record_events
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.scheduler import leader
from potluck.store.scheduler.leader import Leadership
from potluck.store.tasks import dependencies, tasks
from potluck.store.tasks.dependencies import EndedDependency

_BATCH = 1000
_MAX_CANCELLED = 5000


async def resolve_dependencies_once(services: Services, leadership: Leadership) -> int:
    """Returns the number of resolved dependencies. If it is not 0, there may be more."""
    async with services.database.transaction() as connection:
        decided = await dependencies.list_decided(connection, _BATCH)
        if not decided or not await leader.is_current(connection, leadership):
            return 0
        doomed = {item.task_id for item in decided if item.outcome is not TaskState.SUCCEEDED}
        decided += await dependencies.list_transitive(connection, sorted(doomed), _MAX_CANCELLED)
        await dependencies.release(connection, decided)
        await cancel_dependents(connection, decided)
    return len(decided)


async def cancel_dependents(connection: Connection, decided: list[EndedDependency]) -> None:
    """Cancels tasks that depend on one that did not succeed."""
    details: dict[TaskId, str] = {}
    for item in decided:
        if item.outcome is not TaskState.SUCCEEDED:
            sentence = f"{item.after_id}, which it depends on, has {_ENDED[item.outcome]}."
            details.setdefault(item.task_id, sentence)
    end = TaskState.CANCELLED, EndReason.DEPENDENCY
    ended = await tasks.end_queued(connection, details, *end)
    await record_events(
        connection, *(queue_end_event(owner, task_id, *end) for task_id, owner in ended)
    )


_ENDED = {
    TaskState.FAILED: "failed",
    TaskState.CANCELLED: "been cancelled",
    TaskState.EXPIRED: "expired",
}
