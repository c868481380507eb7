"""Cancel in every state: a queued task ends now, live attempts are settled and stopped."""

from potluck.decide import attempt_change
from potluck.model.error import Conflict
from potluck.model.ids import AccountId, NodeId, TaskId
from potluck.model.task import EndReason, TaskState
from potluck.server import topics
from potluck.server.flow.notify.notify import queue_end_event, record_events, wake_leader
from potluck.server.flow.notify.task_stream import to_task_views
from potluck.server.flow.settle.settle import write_changes
from potluck.server.services import Services
from potluck.store.attempts import attempts
from potluck.store.database import Connection
from potluck.store.tasks import tasks
from potluck.wire.consumer import TaskView


async def cancel(
    services: Services, account_id: AccountId, task_id: TaskId, version: int | None = None
) -> TaskView:
    """With a version, only if the task still has it."""
    async with services.database.transaction() as connection:
        state = await tasks.lock(connection, task_id, account_id, version)
        nodes = await _cancel(services, connection, account_id, task_id, state)
        record = await tasks.get(connection, services.vault, task_id, account_id)
    for node_id in sorted(nodes):
        await services.live.wake(topics.node(node_id))
    await wake_leader(services)
    (view,) = await to_task_views(services, account_id, [record])
    return view


async def _cancel(
    services: Services,
    connection: Connection,
    account_id: AccountId,
    task_id: TaskId,
    state: TaskState,
) -> set[NodeId]:
    """Returns the nodes to wake."""
    if state is TaskState.CANCELLED:
        return set()
    if state.is_final:
        raise Conflict(f"{task_id} has already {state}.", "A finished task cannot be cancelled.")
    if state is TaskState.QUEUED:
        end = TaskState.CANCELLED, EndReason.CANCELLED
        await tasks.end_queued(connection, {task_id: ""}, *end)
        await record_events(connection, queue_end_event(account_id, task_id, *end))
        return set()
    live = await attempts.lock_live_for_end(connection, task_id)
    assert live, "an assigned or running task has a live attempt"
    await write_changes(services, connection, attempt_change.cancel(live))
    return {attempt.node_id for attempt in live}
