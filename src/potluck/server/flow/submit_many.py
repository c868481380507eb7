"""Submit many: a list of tasks in one request, and where nothing is in the way in one transaction.

One that is refused is no matter to the others: what can be seen of it alone is seen before, and if
the rest can not be entered together each is entered by itself. With an Idempotency-Key each has a
key of its own, made of that and of its place, so that all of it may be sent again.
"""

from collections.abc import Sequence

from potluck.decide.admit import admit, admit_priority, queue_is_full
from potluck.model.error import Conflict, PotluckError, Unavailable
from potluck.model.ids import AccountId, TaskId
from potluck.model.spec import blobs_of
from potluck.model.task import TaskRequest
from potluck.server.flow.notify import hurry, tell
from potluck.server.flow.submit import (
    allowance,
    enter,
    enter_without_files,
    new_task,
    queued,
    same_submission,
    with_effective,
)
from potluck.server.parts import Parts
from potluck.store import blobs, prices, tasks
from potluck.store.database import Connection
from potluck.store.tasks import Allowance, NewTask
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
        async with parts.database.transaction() as connection:
            answers = await _enter_together(parts, connection, account_id, new)
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


async def _enter_together(
    parts: Parts, connection: Connection, account_id: AccountId, new: Sequence[NewTask]
) -> list[Submitted]:
    """Raises if what is in the way of one can only be told when the others are in, or not."""
    earlier = await _earlier(connection, account_id, new)
    may = await allowance(parts, connection, account_id)
    answers = {place: Submitted(task_id) for place, task_id in earlier.items()}
    fresh: dict[int, NewTask] = {}
    cheapest: dict[tuple[int, int], int | None] = {}
    for place, each in enumerate(new):
        if place in answers:
            continue
        try:
            fresh[place] = await _admitted(connection, each, may, cheapest)
        except PotluckError as refused:
            answers[place] = _refused(refused)
    apart = {place: each for place, each in fresh.items() if each.request.after}
    together = [each for place, each in fresh.items() if place not in apart]
    await _check_room(connection, account_id, may, len(fresh))
    await _insert(parts, connection, together)
    for each in apart.values():
        if await enter_without_files(parts, connection, each) != each.id:
            raise _at_this_moment()
    named = {each.id: blobs_of(each.request.spec) for each in fresh.values()}
    await blobs.claim_inputs(connection, account_id, named)
    answers.update({place: Submitted(each.id) for place, each in fresh.items()})
    return [answers[place] for place in range(len(new))]


async def _earlier(
    connection: Connection, account_id: AccountId, new: Sequence[NewTask]
) -> dict[int, TaskId]:
    """What this very list made before, by place."""
    keys = {each.idempotency_key: place for place, each in enumerate(new) if each.idempotency_key}
    if not keys:
        return {}
    found = await tasks.by_idempotency_keys(connection, account_id, list(keys))
    return {keys[key]: same_submission(new[keys[key]], each) for key, each in found.items()}


async def _admitted(
    connection: Connection,
    asked: NewTask,
    may: Allowance,
    cheapest: dict[tuple[int, int], int | None],
) -> NewTask:
    """What the task asks for, if it may enter; what its devices cost is asked once for all."""
    new = with_effective(asked, may)
    wanted = new.request.requirements
    kind = (wanted.cores, wanted.device_count)
    if kind not in cheapest:
        cheapest[kind] = await prices.cheapest_micro_per_hour(connection, wanted)
    admit(new.request, may.available_micro, cheapest[kind])
    admit_priority(new.request.priority, may.quotas.priority)
    return new


async def _check_room(
    connection: Connection, account_id: AccountId, may: Allowance, number: int
) -> None:
    most = may.quotas.queued
    if most is not None and await tasks.room_in_queue(connection, account_id, most) < number:
        raise queue_is_full(most)


async def _insert(parts: Parts, connection: Connection, new: Sequence[NewTask]) -> None:
    if not new:
        return
    entered = await tasks.insert_many(connection, parts.vault, new)
    if len(entered) < len(new):
        raise _at_this_moment()
    await tell(connection, *map(queued, new))


def _at_this_moment() -> Conflict:
    return Conflict("The same list is being submitted at this moment.", "Send it again.")
