"""Append: a call stream is opened with its first items, grows by further ones, and is closed.

An append names the index of its first item, so it is safe to repeat: the same bytes get the same
answer, others a conflict. New items go to a standing attempt in the statement that stores them, if
one may have them; otherwise they wait for the leader as those of any array.
"""

import hmac

from msgspec.structs import replace

from potluck.model.blob import Value
from potluck.model.error import Conflict, InvalidInput
from potluck.model.ids import AccountId, TaskId
from potluck.model.task import EndReason, TaskRequest, TaskState
from potluck.model.task_spec import FunctionSpec
from potluck.server import topics
from potluck.server.flow.lease.standing_lease import wake_nodes
from potluck.server.flow.notify.notify import queue_end_event, record_events, wake_leader
from potluck.server.flow.notify.task_stream import to_task_views
from potluck.server.flow.submit.stream_writes import write_stream
from potluck.server.services import Services
from potluck.server.settings import ServerSettings
from potluck.store.database import Connection
from potluck.store.tasks import streams, tasks
from potluck.store.tasks.streams import MOST_APPENDED, MOST_ITEMS, NewItems, StreamTimes
from potluck.store.tasks.tasks import NewTask
from potluck.wire import item_file
from potluck.wire.consumer import TaskView
from potluck.wire.results import AppendItems, ItemsAppended

_CLOSED = "Open a new stream with the items."


def stream_times(settings: ServerSettings) -> StreamTimes:
    return StreamTimes(
        settings.stream_idle_seconds,
        settings.stream_seconds,
        settings.stream_ahead_seconds,
        settings.settle_seconds + settings.checkpoint_seconds,
    )


def check_stream(request: TaskRequest) -> None:
    """Raises if a stream cannot be opened with this request."""
    if not isinstance(request.spec, FunctionSpec):
        raise InvalidInput("Only calls of a function can be a stream.", "Submit it as an array.")
    if request.items is None or request.items > MOST_APPENDED:
        raise InvalidInput(
            f"A stream is opened with 1 to {MOST_APPENDED} items.", "Append the others later."
        )
    if request.after or request.delay_seconds or request.start_within_seconds:
        raise InvalidInput(
            "A stream cannot have `after`, `delay_seconds` or `start_within_seconds`.",
            "Submit such calls as tasks of their own.",
        )
    if request.spec.inputs.blob is not None:
        raise InvalidInput("The inputs of a stream are sent inline.", "Submit it as an array.")
    _check_count(request.spec.inputs.data, request.items)


def _check_count(inputs: bytes, count: int) -> None:
    if len(item_file.unpack(inputs, MOST_APPENDED)) != count:
        raise InvalidInput("There are more or fewer inputs than items.")


def split_inputs(services: Services, new: NewTask) -> tuple[NewTask, NewItems | None]:
    """The task without the inputs of a stream, which are stored beside it."""
    spec = new.request.spec
    if not new.request.is_stream:
        return new, None
    check_stream(new.request)
    assert isinstance(spec, FunctionSpec) and new.request.items is not None
    first = _new_items(services, 0, new.request.items, spec.inputs.data)
    request = replace(new.request, spec=replace(spec, inputs=Value()), allow_failures=0)
    return replace(new, request=request), first


def _new_items(services: Services, start: int, count: int, inputs: bytes) -> NewItems:
    """The digest is keyed, since a plain hash would allow guessing the content."""
    return NewItems(start, count, hmac.digest(services.keys.request, inputs, "sha256"), inputs)


async def append(
    services: Services, account_id: AccountId, task_id: TaskId, request: AppendItems
) -> ItemsAppended:
    inputs = request.inputs
    count = len(item_file.unpack(inputs, MOST_APPENDED))
    if not count:
        raise InvalidInput("There are no items to append.", "Send at least one.")
    new = _new_items(services, request.start, count, inputs)
    times = stream_times(services.settings)

    async def store(connection: Connection) -> streams.Appended:
        return await streams.append(connection, services.vault, account_id, task_id, new, times)

    appended = await write_stream(services, account_id, task_id, store)
    if appended.outcome == "missing":
        async with services.database.statement() as connection:
            await tasks.get(connection, services.vault, task_id, account_id)
    await wake_nodes(services, appended.node_ids)
    if appended.has_pending:
        await services.live.wake(topics.SCHEDULE)
    return _answer(task_id, request.start + count, appended)


def _answer(task_id: TaskId, end: int, appended: streams.Appended) -> ItemsAppended:
    match appended.outcome:
        case "appended" | "same":
            return ItemsAppended(end)
        case "missing":
            raise Conflict(f"{task_id} is not a call stream.", "Submit the calls as another task.")
        case "other":
            raise Conflict(
                f"{task_id} has other items at this place.", "Append after the last item."
            )
        case "gap":
            raise Conflict(
                f"{task_id} has only {appended.items} items so far.", "Append after the last item."
            )
        case "full":
            raise Conflict(f"{task_id} would have more than {MOST_ITEMS} items.", _CLOSED)
        case _:
            raise Conflict(f"{task_id} is closed.", _CLOSED)


async def close(services: Services, account_id: AccountId, task_id: TaskId) -> TaskView:
    """Takes no more items; it ends when all have an outcome. Repeating it changes nothing."""
    async with services.database.transaction() as connection:
        stream = await streams.lock(connection, task_id, account_id)
        if stream is None:
            await tasks.get(connection, services.vault, task_id, account_id)
            raise Conflict(f"{task_id} is not a call stream.", "Only a stream can be closed.")
        node_ids = await streams.close(connection, task_id) if stream.is_open else []
        await end_if_done(connection, account_id, task_id, stream)
        record = await tasks.get(connection, services.vault, task_id, account_id)
    await wake_nodes(services, node_ids)
    await wake_leader(services)
    (view,) = await to_task_views(services, account_id, [record])
    return view


async def end_if_done(
    connection: Connection, account_id: AccountId, task_id: TaskId, stream: streams.LockedStream
) -> None:
    """Ends a stream that was closed, has nothing left to do, and is on no node."""
    if stream.state is not TaskState.QUEUED or stream.pending:
        return
    end = TaskState.SUCCEEDED, EndReason.COMPLETED
    await tasks.end_queued(connection, {task_id: ""}, *end)
    await record_events(connection, queue_end_event(account_id, task_id, *end))
