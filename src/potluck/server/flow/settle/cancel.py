"""Cancel, at every state: a waiting task ends at once, live attempts are settled and stopped."""

from potluck.decide import attempt_change
from potluck.model.error import Conflict
from potluck.model.ids import AccountId, NodeId, TaskId
from potluck.model.task import EndReason, TaskState
from potluck.server import topics
from potluck.server.flow.notify.notify import ended_in_queue, hurry, tell
from potluck.server.flow.notify.task_stream import as_shown
from potluck.server.flow.settle.settle import write
from potluck.server.services import Parts
from potluck.store.attempts import attempts
from potluck.store.database import Connection
from potluck.store.tasks import tasks
from potluck.wire.consumer import TaskView


async def cancel(parts: Parts, account_id: AccountId, task_id: TaskId) -> TaskView:
    async with parts.database.transaction() as connection:
        state = await tasks.lock(connection, task_id, account_id)
        nodes = await _cancel(parts, connection, account_id, task_id, state)
        found = await tasks.get(connection, task_id, account_id)
    for node_id in sorted(nodes):
        await parts.live.wake(topics.node(node_id))
    await hurry(parts)
    (shown,) = await as_shown(parts, account_id, [found])
    return shown


async def _cancel(
    parts: Parts,
    connection: Connection,
    account_id: AccountId,
    task_id: TaskId,
    state: TaskState,
) -> set[NodeId]:
    """Answers the nodes that must be told."""
    if state is TaskState.CANCELLED:
        return set()
    if state.is_final:
        raise Conflict(f"{task_id} has already {state}.", "A finished task can not be cancelled.")
    if state is TaskState.QUEUED:
        how = TaskState.CANCELLED, EndReason.CANCELLED
        await tasks.end_queued(connection, {task_id: ""}, *how)
        await tell(connection, ended_in_queue(account_id, task_id, *how))
        return set()
    live = await attempts.lock_live_for_end(connection, task_id)
    assert live, "an assigned or running task has a live attempt"
    await write(parts, connection, attempt_change.cancel(live))
    return {attempt.node_id for attempt in live}
