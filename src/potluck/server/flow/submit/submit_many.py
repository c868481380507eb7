"""Submits a list of tasks in one request, if possible in one transaction.

A refused task does not affect the others: each is checked alone first, and if the rest cannot be
queued together, each is queued by itself. With an Idempotency-Key each task gets its own key from
that and its index, so that the whole request can be repeated.
"""

from collections.abc import Sequence

from potluck.model.error import Conflict, PotluckError, Unavailable
from potluck.model.ids import AccountId
from potluck.model.task import TaskRequest
from potluck.model.task_spec import blobs_of
from potluck.server.flow.batch import try_batch_then_each
from potluck.server.flow.notify.notify import wake_leader
from potluck.server.flow.submit.submit import (
    admit_task,
    check_queue_room,
    enqueue,
    enqueue_without_files,
    find_earlier,
    load_allowance,
    make_new_task,
)
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.files import blobs
from potluck.store.tasks import tasks
from potluck.store.tasks.tasks import Allowance, NewTask
from potluck.wire.results import Submitted, TasksSubmitted


async def submit_many(
    services: Services,
    account_id: AccountId,
    requests: Sequence[TaskRequest],
    idempotency_key: str | None,
) -> TasksSubmitted:
    new = [
        make_new_task(services, account_id, request, _key(idempotency_key, place))
        for place, request in enumerate(requests)
    ]
    answers = await try_batch_then_each(
        range(len(new)),
        lambda _: _enqueue_together(services, new),
        lambda place: _enqueue_alone(services, new[place]),
        catch=PotluckError,
        but=Unavailable,
    )
    await wake_leader(services)
    return TasksSubmitted([answers[place] for place in range(len(new))])


def _key(key: str | None, place: int) -> str | None:
    """A single task's key never contains a line break."""
    return None if key is None else f"{key}\n{place}"


async def _enqueue_alone(services: Services, new: NewTask) -> Submitted:
    try:
        async with services.database.transaction() as connection:
            return Submitted(await enqueue(services, connection, new))
    except Unavailable:
        raise
    except PotluckError as error:
        return _refused(error)


def _refused(error: PotluckError) -> Submitted:
    return Submitted(None, error.code, error.detail, error.hint)


async def _enqueue_together(services: Services, new: Sequence[NewTask]) -> dict[int, Submitted]:
    """Raises if one task can only be checked after the others are stored."""
    async with services.database.statement() as connection:
        allowance = await load_allowance(services, connection, new)
    answers: dict[int, Submitted] = {}
    fresh: dict[int, NewTask] = {}
    for place, task in enumerate(new):
        task_id = find_earlier(task, allowance)
        if task_id is not None:
            answers[place] = Submitted(task_id)
            continue
        try:
            fresh[place] = admit_task(task, allowance, services.settings)
        except PotluckError as error:
            answers[place] = _refused(error)
    if fresh:
        await _write(services, allowance, list(fresh.values()))
    return answers | {place: Submitted(task.id) for place, task in fresh.items()}


async def _write(services: Services, allowance: Allowance, fresh: Sequence[NewTask]) -> None:
    """In the simple case a single statement, which is its own transaction: on a conflict, what was
    stored is found by its keys.
    """
    dependent = [task for task in fresh if task.request.after]
    independent = [task for task in fresh if not task.request.after]
    named = {task.id: blobs_of(task.request.spec) for task in fresh}
    is_one_statement = allowance.quotas.queued is None and not dependent and not any(named.values())
    database = services.database
    async with database.statement() if is_one_statement else database.transaction() as connection:
        await check_queue_room(connection, allowance, fresh)
        await _insert(services, connection, independent)
        for task in dependent:
            if await enqueue_without_files(services, connection, task) != task.id:
                raise _submitted_concurrently()
        await blobs.claim_inputs(connection, fresh[0].account_id, named)


async def _insert(services: Services, connection: Connection, new: Sequence[NewTask]) -> None:
    if not new:
        return
    entered = await tasks.insert_many(connection, services.vault, new)
    if len(entered) < len(new):
        raise _submitted_concurrently()


def _submitted_concurrently() -> Conflict:
    return Conflict("The same list is being submitted concurrently.", "Send it again.")
