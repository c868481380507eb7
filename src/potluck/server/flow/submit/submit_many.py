"""Submit many: a list of tasks in one request, and where nothing is in the way in one transaction.

One that is refused is no matter to the others: what can be seen of it alone is seen before, and if
the rest can not be entered together each is entered by itself. With an Idempotency-Key each has a
key of its own, made of that and of its place, so that all of it may be sent again.
"""

from collections.abc import Sequence

from potluck.model.error import Conflict, PotluckError, Unavailable
from potluck.model.ids import AccountId
from potluck.model.task import TaskRequest
from potluck.model.task_spec import blobs_of
from potluck.server.flow.batch import try_batch_then_each
from potluck.server.flow.notify.notify import hurry
from potluck.server.flow.submit.submit import (
    admit_task,
    load_allowance,
    check_queue_room,
    find_earlier,
    enqueue,
    enqueue_without_files,
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
        lambda _: _enter_together(services, new),
        lambda place: _enter_alone(services, new[place]),
        catch=PotluckError,
        but=Unavailable,
    )
    await hurry(services)
    return TasksSubmitted([answers[place] for place in range(len(new))])


def _key(key: str | None, place: int) -> str | None:
    """No key of a single task has a line break in it."""
    return None if key is None else f"{key}\n{place}"


async def _enter_alone(services: Services, new: NewTask) -> Submitted:
    try:
        async with services.database.transaction() as connection:
            return Submitted(await enqueue(services, connection, new))
    except Unavailable:
        raise
    except PotluckError as refused:
        return _refused(refused)


def _refused(refused: PotluckError) -> Submitted:
    return Submitted(None, refused.code, refused.detail, refused.hint)


async def _enter_together(services: Services, new: Sequence[NewTask]) -> dict[int, Submitted]:
    """Raises if what is in the way of one can only be told when the others are in, or not."""
    async with services.database.statement() as connection:
        may = await load_allowance(services, connection, new)
    answers: dict[int, Submitted] = {}
    fresh: dict[int, NewTask] = {}
    for place, each in enumerate(new):
        task_id = find_earlier(each, may)
        if task_id is not None:
            answers[place] = Submitted(task_id)
            continue
        try:
            fresh[place] = admit_task(each, may)
        except PotluckError as refused:
            answers[place] = _refused(refused)
    if fresh:
        await _write(services, may, list(fresh.values()))
    return answers | {place: Submitted(each.id) for place, each in fresh.items()}


async def _write(services: Services, may: Allowance, fresh: Sequence[NewTask]) -> None:
    """Where nothing else is to be written it is one statement, and a transaction by itself: what of
    it has entered if others are in the way is found by its keys.
    """
    apart = [each for each in fresh if each.request.after]
    together = [each for each in fresh if not each.request.after]
    named = {each.id: blobs_of(each.request.spec) for each in fresh}
    is_one_statement = may.quotas.queued is None and not apart and not any(named.values())
    database = services.database
    async with database.statement() if is_one_statement else database.transaction() as connection:
        await check_queue_room(connection, may, fresh)
        await _insert(services, connection, together)
        for each in apart:
            if await enqueue_without_files(services, connection, each) != each.id:
                raise _at_this_moment()
        await blobs.claim_inputs(connection, fresh[0].account_id, named)


async def _insert(services: Services, connection: Connection, new: Sequence[NewTask]) -> None:
    if not new:
        return
    entered = await tasks.insert_many(connection, services.vault, new)
    if len(entered) < len(new):
        raise _at_this_moment()


def _at_this_moment() -> Conflict:
    return Conflict("The same list is being submitted at this moment.", "Send it again.")
