"""Cancel, at every state: a waiting task ends at once, a live attempt is settled and stopped."""

from potluck.model.error import Conflict
from potluck.model.event import EventKind
from potluck.model.ids import AccountId, NodeId, TaskId
from potluck.model.task import EndReason, TaskState
from potluck.server import topics
from potluck.server.flow.notify import hurry, tell
from potluck.server.flow.settle import Ending, end_attempt
from potluck.server.parts import Parts
from potluck.store import attempts, tasks
from potluck.store.database import Connection
from potluck.store.events import Event
from potluck.wire.consumer import TaskView


async def cancel(parts: Parts, account_id: AccountId, task_id: TaskId) -> TaskView:
    async with parts.database.transaction() as connection:
        state = await tasks.lock(connection, task_id, account_id)
        node_id = await _cancel(parts, connection, account_id, task_id, state)
        view = await tasks.get(connection, task_id, account_id)
    if node_id is not None:
        await parts.live.wake(topics.node(node_id))
    await hurry(parts)
    return view


async def _cancel(
    parts: Parts,
    connection: Connection,
    account_id: AccountId,
    task_id: TaskId,
    state: TaskState,
) -> NodeId | None:
    """Answers the node that must be told."""
    if state is TaskState.CANCELLED:
        return None
    if state.is_final:
        raise Conflict(f"{task_id} has already {state}.", "A finished task can not be cancelled.")
    if state is TaskState.QUEUED:
        await tasks.finish_queued(connection, task_id, TaskState.CANCELLED, EndReason.CANCELLED)
        await tell(connection, Event(account_id, EventKind.TASK_FINISHED, task_id))
        return None
    attempt_id = await tasks.live_attempt(connection, task_id)
    assert attempt_id is not None, "an assigned or running task has a live attempt"
    attempt = await attempts.lock_for_end(connection, attempt_id)
    assert attempt is not None and attempt.state.is_live
    await end_attempt(parts, connection, attempt, Ending(EndReason.CANCELLED))
    return attempt.node_id
