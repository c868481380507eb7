"""Submit: a valid, affordable task enters the queue, once for each idempotency key.

What it is to come after is looked at under a shared lock: a task that ends at this very moment is
either seen as ended, or sees that it is waited for.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from potluck.decide.admission import (
    admit,
    admit_after,
    admit_priority,
    queue_is_full,
)
from potluck.decide.derived_requirements import effective
from potluck.model.error import Conflict, QuotaExceeded
from potluck.model.ids import AccountId, TaskId
from potluck.model.task import TaskRequest
from potluck.model.task_spec import blobs_of
from potluck.server.flow.notify.notify import hurry
from potluck.server.flow.notify.task_stream import add_pause_reason
from potluck.server.flow.schedule.dependents import cancel_dependents
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.files import blobs
from potluck.store.new_ids import new_task_id
from potluck.store.tasks import dependencies, tasks
from potluck.store.tasks.dependencies import Decided
from potluck.store.tasks.tasks import (
    Allowance,
    EarlierSubmission,
    NewTask,
    Origin,
    Quotas,
)
from potluck.wire.consumer import TaskView
from potluck.wire.signing.address import checksummed


async def submit(
    services: Services, account_id: AccountId, request: TaskRequest, idempotency_key: str | None
) -> TaskView:
    new = make_new_task(services, account_id, request, idempotency_key)
    async with services.database.transaction() as connection:
        task_id = await enqueue(services, connection, new)
        found = await tasks.get(connection, task_id, account_id)
    await hurry(services)
    return add_pause_reason(found)


def make_new_task(
    services: Services,
    account_id: AccountId,
    request: TaskRequest,
    idempotency_key: str | None,
    origin: Origin | None = None,
) -> NewTask:
    asked = tasks.request_hash(services.keys.request, request, origin)
    return NewTask(new_task_id(), account_id, request, asked, idempotency_key, origin)


async def enqueue(services: Services, connection: Connection, new: NewTask) -> TaskId:
    task_id = await enqueue_without_files(services, connection, new)
    if task_id == new.id:
        named = {new.id: blobs_of(new.request.spec)}
        await blobs.claim_inputs(connection, new.account_id, named)
    return task_id


async def enqueue_without_files(services: Services, connection: Connection, new: NewTask) -> TaskId:
    """What it names the caller claims, in this transaction and behind all tasks of it."""
    may = await load_allowance(services, connection, [new])
    return find_earlier(new, may) or await _enter(services, connection, new, may)


def find_earlier(new: NewTask, may: Allowance) -> TaskId | None:
    """The task that this very submission made before, whatever has become of it."""
    found = None if new.idempotency_key is None else may.earlier.get(new.idempotency_key)
    return None if found is None else _same(new, found)


async def _twin(connection: Connection, new: NewTask) -> TaskId | None:
    """The task that this very submission has made meanwhile."""
    if new.idempotency_key is None:
        return None
    found = await tasks.by_idempotency_key(connection, new.account_id, new.idempotency_key)
    return None if found is None else _same(new, found)


def _same(new: NewTask, before: EarlierSubmission) -> TaskId:
    if before.request_hash != new.request_hash:
        raise Conflict(
            "This Idempotency-Key was used for another task.", "Use a new key for each task."
        )
    return before.id


async def _enter(
    services: Services, connection: Connection, asked: NewTask, may: Allowance
) -> TaskId:
    new = admit_task(asked, may)
    try:
        await check_queue_room(connection, may, [new])
    except QuotaExceeded:
        # The same submission may have taken the last place while this one waited for its turn.
        twin = await _twin(connection, new)
        if twin is None:
            raise
        return twin
    after = await dependencies.hold_after(connection, new.request.after, new.account_id)
    admit_after(new.request.after, after)
    still_open = [task_id for task_id, state in after.items() if not state.is_final]
    if not await tasks.insert(connection, services.vault, new, len(still_open)):
        twin = await _twin(connection, new)
        assert twin is not None, "only the same key, used at the same moment, keeps a task out"
        return twin
    if still_open:
        await dependencies.insert(connection, new.id, still_open)
    ended = [Decided(new.id, each, state) for each, state in after.items() if state.is_final]
    await cancel_dependents(connection, ended)
    return new.id


async def load_allowance(
    services: Services, connection: Connection, new: Sequence[NewTask]
) -> Allowance:
    """What is to be known before these, all of one account, may enter."""
    of_all = Quotas(services.settings.quota_queued_tasks, services.settings.quota_priority)
    return await tasks.allowance(connection, new[0].account_id, new, of_all)


def admit_task(asked: NewTask, may: Allowance, *, must_pay: bool = True) -> NewTask:
    """A task that may enter if there is room, with what it asks for without saying so."""
    wanted = effective(asked.request, may.wallet)
    for wallet in (*asked.request.trust, *asked.request.requirements.owners):
        checksummed(wallet)  # a mistyped one would see what it is not meant to
    request = replace(asked.request, requirements=wanted)
    cheapest = may.cheapest_micro_per_hour(wanted) if must_pay else None
    admit(request, may.available_micro, cheapest)
    admit_priority(request.priority, may.quotas.priority)
    return replace(asked, request=request)


async def check_queue_room(connection: Connection, may: Allowance, new: Sequence[NewTask]) -> None:
    most = may.quotas.queued
    if most is None or not new:
        return
    if await tasks.room_in_queue(connection, new[0].account_id, most) < len(new):
        raise queue_is_full(most)
