"""Retry: a task that has ended, submitted once more as a new one that names its origin.

What it was made of is still here, and so are its files as long as they are kept. What it waited for
is not waited for again, and its secrets were forgotten when it ended: they have to be given again.
"""

from msgspec.structs import replace

from potluck.decide.arrays.retry_items import again
from potluck.model.error import Conflict, InvalidInput
from potluck.model.ids import AccountId, TaskId
from potluck.model.task import TaskRequest
from potluck.model.task_spec import blobs_of
from potluck.server.flow.notify.notify import hurry
from potluck.server.flow.notify.task_stream import add_pause_reason
from potluck.server.flow.submit.submit import enqueue_without_files, make_new_task
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.files import blobs
from potluck.store.tasks import retry_source, tasks
from potluck.store.tasks.retry_source import TaskOnce
from potluck.store.tasks.tasks import NewTask, Origin
from potluck.wire.consumer import RetryTask, TaskView


async def retry_task(
    services: Services,
    account_id: AccountId,
    task_id: TaskId,
    asked: RetryTask,
    idempotency_key: str | None,
) -> TaskView:
    async with services.database.transaction() as connection:
        once = await retry_source.once(connection, services.vault, task_id, account_id)
        new = _again(services, account_id, (task_id, once), asked, idempotency_key)
        entered = await enqueue_without_files(services, connection, new)
        if entered == new.id:
            await _bring_along(connection, new, task_id)
        found = await tasks.get(connection, entered, account_id)
    await hurry(services)
    return add_pause_reason(found)


async def _bring_along(connection: Connection, new: NewTask, task_id: TaskId) -> None:
    """Behind all else that is locked, as in every submission."""
    named = blobs_of(new.request.spec)
    if gone := await blobs.missing(connection, new.account_id, named):
        files = "a file" if len(gone) == 1 else f"{len(gone)} files"
        raise Conflict(
            f"{task_id} took {files} along, no longer kept since it ended.",
            "Submit it anew, with its files.",
        )
    await blobs.claim_inputs(connection, new.account_id, {new.id: named})


def _again(
    services: Services,
    account_id: AccountId,
    origin: tuple[TaskId, TaskOnce],
    asked: RetryTask,
    idempotency_key: str | None,
) -> NewTask:
    task_id, once = origin
    if not once.state.is_final:
        raise Conflict(
            f"{task_id} has not ended yet: it is {once.state}.",
            "Wait for its end, or call it off with `potluck cancel`, and then try it again.",
        )
    request = _with_secrets(task_id, once, asked)
    left = None if once.array is None else again(once.array, asked.all_items)
    tried = Origin(task_id, left, asked.all_items)
    return make_new_task(services, account_id, request, idempotency_key, tried)


def _with_secrets(task_id: TaskId, once: TaskOnce, asked: RetryTask) -> TaskRequest:
    if once.secret_count and not asked.secrets:
        many = "a secret" if once.secret_count == 1 else f"{once.secret_count} secrets"
        raise InvalidInput(
            f"{task_id} had {many}, forgotten when it ended.",
            "Give them again: `potluck retry TASK --secret NAME`, or `secrets` in the request.",
        )
    return replace(
        once.request,
        secrets=asked.secrets,
        trust=asked.trust,
        secrets_to_strangers=asked.secrets_to_strangers,
    )
