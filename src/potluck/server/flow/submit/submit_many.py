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
from potluck.server.flow.notify.notify import hurry
from potluck.server.flow.submit.submit import (
    admitted,
    allowance,
    check_room,
    earlier,
    enter,
    enter_without_files,
    new_task,
)
from potluck.server.services import Parts
from potluck.store.database import Connection
from potluck.store.files import blobs
from potluck.store.tasks import tasks
from potluck.store.tasks.tasks import Allowance, NewTask
from potluck.wire.results import Submitted, TasksSubmitted


async def submit_many(
    parts: Parts,
    account_id: AccountId,
    requests: Sequence[TaskRequest],
    idempotency_key: str | None,
) -> TasksSubmitted:
    new = [
        new_task(parts, account_id, request, _key(idempotency_key, place))
        for place, request in enumerate(requests)
    ]
    try:
        answers = await _enter_together(parts, new)
    except Unavailable:
        raise
    except PotluckError:
        answers = [await _enter_alone(parts, each) for each in new]
    await hurry(parts)
    return TasksSubmitted(answers)


def _key(key: str | None, place: int) -> str | None:
    """No key of a single task has a line break in it."""
    return None if key is None else f"{key}\n{place}"


async def _enter_alone(parts: Parts, new: NewTask) -> Submitted:
    try:
        async with parts.database.transaction() as connection:
            return Submitted(await enter(parts, connection, new))
    except Unavailable:
        raise
    except PotluckError as refused:
        return _refused(refused)


def _refused(refused: PotluckError) -> Submitted:
    return Submitted(None, refused.code, refused.detail, refused.hint)


async def _enter_together(parts: Parts, new: Sequence[NewTask]) -> list[Submitted]:
    """Raises if what is in the way of one can only be told when the others are in, or not."""
    async with parts.database.statement() as connection:
        may = await allowance(parts, connection, new)
    answers: dict[int, Submitted] = {}
    fresh: dict[int, NewTask] = {}
    for place, each in enumerate(new):
        task_id = earlier(each, may)
        if task_id is not None:
            answers[place] = Submitted(task_id)
            continue
        try:
            fresh[place] = admitted(each, may)
        except PotluckError as refused:
            answers[place] = _refused(refused)
    if fresh:
        await _write(parts, may, list(fresh.values()))
    answers.update({place: Submitted(each.id) for place, each in fresh.items()})
    return [answers[place] for place in range(len(new))]


async def _write(parts: Parts, may: Allowance, fresh: Sequence[NewTask]) -> None:
    """Where nothing else is to be written it is one statement, and a transaction by itself: what of
    it has entered if others are in the way is found by its keys.
    """
    apart = [each for each in fresh if each.request.after]
    together = [each for each in fresh if not each.request.after]
    named = {each.id: blobs_of(each.request.spec) for each in fresh}
    is_one_statement = may.quotas.queued is None and not apart and not any(named.values())
    database = parts.database
    async with database.statement() if is_one_statement else database.transaction() as connection:
        await check_room(connection, may, fresh)
        await _insert(parts, connection, together)
        for each in apart:
            if await enter_without_files(parts, connection, each) != each.id:
                raise _at_this_moment()
        await blobs.claim_inputs(connection, fresh[0].account_id, named)


async def _insert(parts: Parts, connection: Connection, new: Sequence[NewTask]) -> None:
    if not new:
        return
    entered = await tasks.insert_many(connection, parts.vault, new)
    if len(entered) < len(new):
        raise _at_this_moment()


def _at_this_moment() -> Conflict:
    return Conflict("The same list is being submitted at this moment.", "Send it again.")
