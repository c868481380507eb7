"""Single items of arrays, such as calls of a stream, as if each were a task: `task#item`.

A call can be seen, cancelled and retried by itself. One that waits is taken out of the queue. One
that runs ends with the attempt that runs it; the other calls of that attempt go back to the queue.
One that a node has for later is skipped there, or stopped if it has begun meanwhile. A retry is a
task of its own.
"""

from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from potluck.decide.attempt_change import AttemptChange, end
from potluck.model.blob import Value
from potluck.model.error import Conflict, NotFound
from potluck.model.ids import AccountId, NodeId, TaskId, call_id
from potluck.model.task import EndReason, TaskState
from potluck.model.task_spec import FunctionSpec
from potluck.server import topics
from potluck.server.flow.lease.standing_lease import wake_nodes
from potluck.server.flow.notify import task_stream
from potluck.server.flow.notify.notify import wake_leader
from potluck.server.flow.notify.task_stream import add_pause_reason
from potluck.server.flow.settle.settle import retry_wait, write_changes
from potluck.server.flow.submit.append import end_if_done
from potluck.server.flow.submit.retry import retry_request
from potluck.server.flow.submit.submit import enqueue, make_new_task
from potluck.server.services import Services
from potluck.store.attempts import attempt_list, attempts
from potluck.store.database import Connection
from potluck.store.tasks import retry_source, streams, tasks
from potluck.store.tasks.streams import CallState
from potluck.store.tasks.tasks import Origin
from potluck.wire.consumer import RetryTask, TaskView


class _Times(Struct, frozen=True):
    started_at: datetime | None
    finished_at: datetime | None


async def view(services: Services, account_id: AccountId, task_id: TaskId, item: int) -> TaskView:
    async with services.database.transaction() as connection:
        call = await _view(services, connection, account_id, task_id, item)
    if call.state is not TaskState.QUEUED:
        return call
    whole = await task_stream.view(services, account_id, task_id)
    return replace(call, waiting=whole.waiting)


async def _view(
    services: Services, connection: Connection, account_id: AccountId, task_id: TaskId, item: int
) -> TaskView:
    task = (await tasks.get(connection, services.vault, task_id, account_id)).view
    call = await streams.find_call(connection, services.vault, task_id, item)
    if call is None:
        raise _no_such_item(task, item)
    page = await attempt_list.page(connection, services.vault, task, None, 20, item)
    newest = page.attempts[0] if page.attempts else None
    waits = call.state in (TaskState.QUEUED, TaskState.ASSIGNED)
    times = _Times(
        None if newest is None or waits else newest.started_at,
        None if newest is None or not call.state.is_final else newest.finished_at,
    )
    return replace(
        task,
        id=call_id(task_id, item),
        state=call.state,
        phase=call.state.value,
        items=None,
        reason=call.reason,
        detail=call.detail,
        exit_code=call.exit_code,
        last_lines=call.last_lines,
        started_at=times.started_at,
        finished_at=times.finished_at,
        waiting=None,
        charge_micro=0,
        attempts=list(reversed(page.attempts)),
        attempt_count=len(page.attempts),
    )


def _no_such_item(task: TaskView, item: int) -> NotFound:
    if task.items is None:
        return NotFound(
            f"{task.id} is not an array, so it has no item {item}.", "Leave out the `#`."
        )
    count = task.items.total
    return NotFound(f"{task.id} has {count} items, and no item {item}.", "They count from 0.")


async def cancel(services: Services, account_id: AccountId, task_id: TaskId, item: int) -> TaskView:
    """Cancelling it again changes nothing."""
    node_ids: list[NodeId] = []
    async with services.database.transaction() as connection:
        stream = await streams.lock(connection, task_id, account_id)
        call = await streams.find_call(connection, services.vault, task_id, item)
        if stream is None or call is None:
            shown = await tasks.get(connection, services.vault, task_id, account_id)
            if call is None:
                raise _no_such_item(shown.view, item)
            raise Conflict(
                f"{task_id} is not a call stream: its items cannot be cancelled one by one.",
                "Cancel the whole array.",
            )
        if call.state.is_final and call.state is not TaskState.CANCELLED:
            raise Conflict(
                f"{call_id(task_id, item)} has already {call.state}.",
                "A finished call cannot be cancelled.",
            )
        if call.state is not TaskState.CANCELLED:
            await streams.cancel_item(connection, task_id, item)
            node_ids = [] if call.node_id is None else [call.node_id]
            await _stop(services, connection, call)
            if not stream.is_open:
                left = await streams.lock(connection, task_id, account_id)
                assert left is not None
                await end_if_done(connection, account_id, task_id, left)
        shown_call = await _view(services, connection, account_id, task_id, item)
    await wake_nodes(services, node_ids)
    await services.live.wake(topics.results(task_id))
    await services.live.wake(topics.task(task_id))
    await wake_leader(services)
    return shown_call


async def _stop(services: Services, connection: Connection, call: CallState) -> None:
    """Ends the attempt that runs the call now; one that has it for later continues without it."""
    if call.attempt_id is None or not call.is_next:
        return
    locked = await attempts.lock_for_end(connection, call.attempt_id)
    assert locked is not None, "its task is locked"
    change = end(AttemptChange(locked), EndReason.CANCELLED, retry_wait(services))
    await write_changes(services, connection, [change])


async def retry(
    services: Services,
    account_id: AccountId,
    task_id: TaskId,
    item: int,
    request: RetryTask,
    idempotency_key: str | None,
) -> TaskView:
    """Submits one ended call of a stream again, as a task of its own."""
    async with services.database.transaction() as connection:
        call = await streams.find_call(connection, services.vault, task_id, item)
        source = await retry_source.load_source(connection, services.vault, task_id, account_id)
        if call is None:
            shown = await tasks.get(connection, services.vault, task_id, account_id)
            raise _no_such_item(shown.view, item)
        if not call.state.is_final:
            raise Conflict(
                f"{call_id(task_id, item)} has not ended yet: it is {call.state}.",
                "Wait for its end, or cancel it with `potluck cancel`; then retry it.",
            )
        inputs = await streams.read_inputs(connection, services.vault, task_id, item)
        spec = source.request.spec
        if inputs is None or not isinstance(spec, FunctionSpec):
            raise Conflict(
                f"{task_id} is not a call stream, or its calls were deleted.",
                "Retry the whole task.",
            )
        again = replace(
            retry_request(task_id, source, request),
            spec=replace(spec, inputs=Value(inputs)),
            items=None,
            allow_failures=0,
        )
        origin = Origin(task_id, None, request.all_items)
        new = make_new_task(services, account_id, again, idempotency_key, origin)
        queued_id = await enqueue(services, connection, new)
        record = await tasks.get(connection, services.vault, queued_id, account_id)
    await wake_leader(services)
    return add_pause_reason(record)
