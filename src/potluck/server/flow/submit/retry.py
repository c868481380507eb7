"""Retry: submits an ended task again, as a new task that names its origin.

Its spec is still stored, and so are its files during the retention time. Its dependencies are not
waited for again, and its secrets were deleted when it ended: they must be given again.
"""

from msgspec.structs import replace

from potluck.decide.arrays.retry_items import plan_retry
from potluck.model.blob import INLINE_BYTES, Value
from potluck.model.error import Conflict, InvalidInput
from potluck.model.ids import AccountId, TaskId
from potluck.model.task import TaskRequest
from potluck.model.task_spec import FunctionSpec, blobs_of
from potluck.server.flow.notify.notify import wake_leader
from potluck.server.flow.notify.task_stream import add_pause_reason
from potluck.server.flow.submit.submit import enqueue_without_files, make_new_task
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.files import blobs
from potluck.store.tasks import retry_source, streams, tasks
from potluck.store.tasks.retry_source import RetrySource
from potluck.store.tasks.tasks import NewTask, Origin
from potluck.wire import item_file
from potluck.wire.consumer import RetryTask, TaskView


async def retry_task(
    services: Services,
    account_id: AccountId,
    task_id: TaskId,
    request: RetryTask,
    idempotency_key: str | None,
    version: int | None = None,
) -> TaskView:
    """With a version, only if the task still has it."""
    async with services.database.transaction() as connection:
        if version is not None:
            await tasks.lock(connection, task_id, account_id, version)
        source = await retry_source.load_source(connection, services.vault, task_id, account_id)
        if source.is_stream:
            source = await _with_inputs(services, connection, task_id, source)
        new = _retry_of(services, account_id, (task_id, source), request, idempotency_key)
        queued_id = await enqueue_without_files(services, connection, new)
        if queued_id == new.id:
            await _claim_files(connection, new, task_id)
        record = await tasks.get(connection, services.vault, queued_id, account_id)
    await wake_leader(services)
    return add_pause_reason(record)


async def _with_inputs(
    services: Services, connection: Connection, task_id: TaskId, source: RetrySource
) -> RetrySource:
    """A call stream becomes an array of all its calls."""
    spec = source.request.spec
    assert isinstance(spec, FunctionSpec), "only functions are called"
    values = await streams.read_all_inputs(connection, services.vault, task_id, INLINE_BYTES)
    inputs = item_file.pack(values)
    if not values or len(inputs) > INLINE_BYTES:
        raise Conflict(
            f"The arguments of all calls of {task_id} are too large for an array, or were deleted.",
            f"Retry its calls one by one: `potluck retry {task_id}#0`.",
        )
    request = replace(source.request, spec=replace(spec, inputs=Value(inputs)))
    return replace(source, request=replace(request, allow_failures=source.request.items or 0))


async def _claim_files(connection: Connection, new: NewTask, task_id: TaskId) -> None:
    """Call last, as in every submission: blobs come last in the lock order."""
    named = blobs_of(new.request.spec)
    if missing := await blobs.find_missing(connection, new.account_id, named):
        files = "a file" if len(missing) == 1 else f"{len(missing)} files"
        raise Conflict(
            f"{task_id} used {files}, deleted after it ended.", "Submit it again with its files."
        )
    await blobs.claim_inputs(connection, new.account_id, {new.id: named})


def _retry_of(
    services: Services,
    account_id: AccountId,
    origin: tuple[TaskId, RetrySource],
    request: RetryTask,
    idempotency_key: str | None,
) -> NewTask:
    task_id, source = origin
    if not source.state.is_final:
        raise Conflict(
            f"{task_id} has not ended yet: it is {source.state}.",
            "Wait for its end, or cancel it with `potluck cancel`; then retry it.",
        )
    new_request = retry_request(task_id, source, request)
    left = None if source.array is None else plan_retry(source.array, request.all_items)
    retried = Origin(task_id, left, request.all_items)
    return make_new_task(services, account_id, new_request, idempotency_key, retried)


def retry_request(task_id: TaskId, source: RetrySource, request: RetryTask) -> TaskRequest:
    if source.secret_count and not request.secrets:
        many = "a secret" if source.secret_count == 1 else f"{source.secret_count} secrets"
        raise InvalidInput(
            f"{task_id} had {many}, deleted when it ended.",
            "Give them again: `potluck retry TASK --secret NAME`, or `secrets` in the request.",
        )
    return replace(
        source.request,
        delay_seconds=None,
        secrets=request.secrets,
        trust=request.trust,
        secrets_to_strangers=request.secrets_to_strangers,
    )
