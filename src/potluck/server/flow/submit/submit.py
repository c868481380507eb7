"""Submit: a valid, affordable task enters the queue, once per idempotency key.

Dependencies are read under a shared lock: a task that ends concurrently is either seen as ended, or
sees its new dependent.
"""

from collections.abc import Mapping, Sequence

import structlog
from msgspec.structs import replace

from potluck.decide.admission import admit, admit_after, admit_priority, queue_full_error
from potluck.decide.derived_requirements import allow_fetching, derive_requirements
from potluck.local.network.presets import load_presets
from potluck.model.error import Conflict, QuotaExceeded
from potluck.model.ids import AccountId, TaskId
from potluck.model.task import TaskRequest, TaskState
from potluck.model.task_spec import blobs_of
from potluck.server.flow.notify.notify import wake_leader
from potluck.server.flow.notify.task_stream import add_pause_reason
from potluck.server.flow.schedule.dependents import cancel_dependents
from potluck.server.flow.submit.append import split_inputs, stream_times
from potluck.server.flow.submit.volumes import resolve_mounts
from potluck.server.services import Services
from potluck.server.settings import ServerSettings
from potluck.store.database import Connection
from potluck.store.files import blobs, volumes
from potluck.store.new_ids import new_task_id
from potluck.store.tasks import dependencies, streams, tasks
from potluck.store.tasks.allowance import Allowance, Quotas, read_allowance, room_in_queue
from potluck.store.tasks.dependencies import EndedDependency
from potluck.store.tasks.tasks import EarlierSubmission, NewTask, Origin, TaskRecord
from potluck.wire.consumer import TaskView
from potluck.wire.signing.address import checksummed

log = structlog.get_logger()


async def submit(
    services: Services,
    account_id: AccountId,
    request: TaskRequest,
    idempotency_key: str | None,
    traceparent: str | None = None,
) -> TaskView:
    new = make_new_task(services, account_id, request, idempotency_key, traceparent=traceparent)
    record = await store(services, new)
    log.info("task submitted", task_id=record.view.id)
    await wake_leader(services)
    return add_pause_reason(record)


async def store(services: Services, requested: NewTask) -> TaskRecord:
    """Stores the task in a transaction of its own; the leader is not woken."""
    new, first = split_inputs(services, requested)
    async with services.database.transaction() as connection:
        task_id = await enqueue(services, connection, new)
        if first is not None and task_id == new.id:
            times = stream_times(services.settings)
            await streams.open_stream(connection, services.vault, task_id, first, times)
        return await tasks.get(connection, services.vault, task_id, new.account_id)


def make_new_task(
    services: Services,
    account_id: AccountId,
    request: TaskRequest,
    idempotency_key: str | None,
    origin: Origin | None = None,
    traceparent: str | None = None,
) -> NewTask:
    request_hash = tasks.request_hash(services.keys.request, request, origin)
    return NewTask(
        new_task_id(), account_id, request, request_hash, idempotency_key, origin, traceparent
    )


async def enqueue(services: Services, connection: Connection, new: NewTask) -> TaskId:
    task_id = await enqueue_without_files(services, connection, new)
    if task_id == new.id:
        named = {new.id: blobs_of(new.request.spec)}
        await blobs.claim_inputs(connection, new.account_id, named)
    return task_id


async def enqueue_without_files(services: Services, connection: Connection, new: NewTask) -> TaskId:
    """The caller claims the blobs, in this transaction and after all its tasks."""
    allowance = await load_allowance(services, connection, [new])
    return find_earlier(new, allowance) or await _enqueue(services, connection, new, allowance)


def find_earlier(new: NewTask, allowance: Allowance) -> TaskId | None:
    """The task that this submission created before, in any state."""
    submission = None if new.idempotency_key is None else allowance.earlier.get(new.idempotency_key)
    return None if submission is None else _same(new, submission)


async def _twin(connection: Connection, new: NewTask) -> TaskId | None:
    """The task that this submission created concurrently."""
    if new.idempotency_key is None:
        return None
    submission = await tasks.by_idempotency_key(connection, new.account_id, new.idempotency_key)
    return None if submission is None else _same(new, submission)


def _same(new: NewTask, before: EarlierSubmission) -> TaskId:
    if before.request_hash != new.request_hash:
        raise Conflict(
            "This Idempotency-Key was used for another task.", "Use a new key for each task."
        )
    return before.id


async def _enqueue(
    services: Services, connection: Connection, requested: NewTask, allowance: Allowance
) -> TaskId:
    new = admit_task(requested, allowance, services.settings)
    try:
        await check_queue_room(connection, allowance, [new])
    except QuotaExceeded:
        # The same submission may have taken the last place while this one waited for the lock.
        twin = await _twin(connection, new)
        if twin is None:
            raise
        return twin
    after = await dependencies.lock_states(connection, new.request.after, new.account_id)
    admit_after(new.request.after, after)
    still_open = [task_id for task_id, state in after.items() if not state.is_final]
    if not await tasks.insert(connection, services.vault, new, len(still_open)):
        twin = await _twin(connection, new)
        assert twin is not None, "only a concurrent use of the same key prevents the insert"
        return twin
    await link_dependencies(connection, [new], after)
    await volumes.mount(connection, {new.id: new.request.requirements.volumes})
    return new.id


async def link_dependencies(
    connection: Connection, new: Sequence[NewTask], after: Mapping[TaskId, TaskState]
) -> None:
    """Stores the open dependencies of new tasks; cancels those whose dependency did not succeed."""
    pairs = [(task.id, after_id) for task in new for after_id in task.request.after]
    await dependencies.insert(connection, [pair for pair in pairs if not after[pair[1]].is_final])
    ended = [
        EndedDependency(task_id, after_id, after[after_id])
        for task_id, after_id in pairs
        if after[after_id].is_final
    ]
    await cancel_dependents(connection, ended)


async def load_allowance(
    services: Services, connection: Connection, new: Sequence[NewTask]
) -> Allowance:
    """Loads the limits that apply to these tasks, all of one account."""
    defaults = Quotas(services.settings.quota_queued_tasks, services.settings.quota_priority)
    allowance = await read_allowance(connection, new[0].account_id, new, defaults)
    names = {mount.name for task in new for mount in task.request.requirements.volumes}
    if not names:
        return allowance
    known = await volumes.list_mountable(connection, new[0].account_id, sorted(names))
    return replace(allowance, volumes=tuple(known))


def admit_task(
    task: NewTask, allowance: Allowance, settings: ServerSettings, *, must_pay: bool = True
) -> NewTask:
    """Returns the task with its implied requirements; raises if it may not be queued."""
    presets = load_presets(settings.network_presets)
    requirements = derive_requirements(task.request, allowance.wallet, presets)
    limits = task.request.limits
    for wallet in (*task.request.trust, *task.request.requirements.owners):
        checksummed(wallet)  # raises for a mistyped wallet, which would gain access
    if requirements.volumes:
        mounts = resolve_mounts(requirements.volumes, allowance.volumes)
        requirements = replace(requirements, volumes=mounts)
        limits = allow_fetching(limits, mounts)
    request = replace(task.request, requirements=requirements, limits=limits)
    cheapest = allowance.cheapest_micro_per_hour(requirements) if must_pay else None
    admit(
        request,
        allowance.available_micro,
        cheapest,
        settings.least_silence_seconds,
        settings.settle_times,
    )
    admit_priority(request.priority, allowance.quotas.priority)
    return replace(task, request=request)


async def check_queue_room(
    connection: Connection, allowance: Allowance, new: Sequence[NewTask]
) -> None:
    most = allowance.quotas.queued
    if most is None or not new:
        return
    if await room_in_queue(connection, new[0].account_id, most) < len(new):
        raise queue_full_error(most)
