"""Submits a list of tasks in one request, in one transaction.

A refused task does not affect the others: each is checked alone first. If something changed before
the rest was stored, the list is checked again, and not stored one by one: that would take a
transaction for each task. With an Idempotency-Key each task gets its own key from that and its
index, so that the whole request can be repeated.
"""

from collections.abc import Iterable, Sequence
from functools import partial

import structlog
from msgspec import Struct

from potluck.decide.admission import admit_after, queue_full_error
from potluck.model.blob import BlobRef
from potluck.model.error import Conflict, PotluckError, Unavailable
from potluck.model.ids import AccountId, TaskId
from potluck.model.task import TaskRequest, TaskState
from potluck.model.task_spec import blobs_of
from potluck.server.flow.batch import off_loop_if_many
from potluck.server.flow.notify.notify import wake_leader
from potluck.server.flow.submit.submit import (
    admit_task,
    find_earlier,
    link_dependencies,
    load_allowance,
    make_new_task,
)
from potluck.server.services import Services
from potluck.server.settings import ServerSettings
from potluck.store.database import Connection
from potluck.store.files import blobs, volumes
from potluck.store.tasks import dependencies, tasks
from potluck.store.tasks.allowance import Allowance, room_in_queue
from potluck.store.tasks.tasks import NewTask
from potluck.wire.results import Submitted, TasksSubmitted

log = structlog.get_logger()

_TRIES = 3


async def submit_many(
    services: Services,
    account_id: AccountId,
    requests: Sequence[TaskRequest],
    idempotency_key: str | None,
    traceparent: str | None = None,
) -> TasksSubmitted:
    make = partial(_make_all, services, account_id, requests, idempotency_key, traceparent)
    new = await off_loop_if_many(len(requests), make)
    answers = await _enqueue_all(services, new)
    for answer in answers.values():
        if answer.task_id is not None:
            log.info("task submitted", task_id=answer.task_id)
    await wake_leader(services)
    return TasksSubmitted([answers[place] for place in range(len(new))])


def _make_all(
    services: Services,
    account_id: AccountId,
    requests: Sequence[TaskRequest],
    key: str | None,
    traceparent: str | None,
) -> list[NewTask]:
    return [
        make_new_task(services, account_id, request, _key(key, place), traceparent=traceparent)
        for place, request in enumerate(requests)
    ]


def _key(key: str | None, place: int) -> str | None:
    """A single task's key never contains a line break."""
    return None if key is None else f"{key}\n{place}"


async def _enqueue_all(services: Services, new: Sequence[NewTask]) -> dict[int, Submitted]:
    """Again after a race, which a second look at the database explains."""
    for _ in range(_TRIES):
        try:
            return await enqueue_list(services, new)
        except Unavailable:
            raise
        except PotluckError:
            continue
    raise Unavailable(
        "The tasks, or what they refer to, are being changed concurrently.",
        "Send the list again.",
        retry_after_seconds=1.0,
    )


def _refused(error: PotluckError) -> Submitted:
    return Submitted(None, error.code, error.detail, error.hint)


async def enqueue_list(services: Services, new: Sequence[NewTask]) -> dict[int, Submitted]:
    """With a few statements, however many tasks are refused. Raises only in case of a race."""
    known = await _load(services, new)
    admitted = await off_loop_if_many(len(new), partial(_admit_all, new, known, services.settings))
    answers, fresh = admitted.answers, admitted.fresh
    if fresh:
        answers |= await _write(services, known, fresh)
    return answers | {
        place: Submitted(task.id) for place, task in fresh.items() if place not in answers
    }


class _Known(Struct, frozen=True):
    """What the tasks are checked against."""

    allowance: Allowance
    after: dict[TaskId, TaskState]
    missing: frozenset[BlobRef]  # blobs that the account does not have


class _Admitted(Struct, frozen=True):
    """Answers for tasks that are known or refused, and the others; by their index."""

    answers: dict[int, Submitted]
    fresh: dict[int, NewTask]


async def _load(services: Services, new: Sequence[NewTask]) -> _Known:
    account_id = new[0].account_id
    named = [blob for task in new for blob in blobs_of(task.request.spec)]
    async with services.database.statement() as connection:
        allowance = await load_allowance(services, connection, new)
        after = await dependencies.read_states(connection, _after_ids(new), account_id)
        missing = await blobs.find_missing(connection, account_id, named)
    return _Known(allowance, after, frozenset(missing))


def _after_ids(new: Iterable[NewTask]) -> list[TaskId]:
    return sorted({after_id for task in new for after_id in task.request.after})


def _admit_all(new: Sequence[NewTask], known: _Known, settings: ServerSettings) -> _Admitted:
    answers: dict[int, Submitted] = {}
    fresh: dict[int, NewTask] = {}
    for place, task in enumerate(new):
        try:
            task_id = find_earlier(task, known.allowance)
            if task_id is not None:
                answers[place] = Submitted(task_id)
                continue
            fresh[place] = admit_task(task, known.allowance, settings)
            admit_after(task.request.after, known.after)
            for blob in blobs_of(task.request.spec) if known.missing else ():
                if blob in known.missing:
                    raise blobs.blob_not_claimed(blob)
        except PotluckError as error:
            fresh.pop(place, None)
            answers[place] = _refused(error)
    return _Admitted(answers, fresh)


async def _write(
    services: Services, known: _Known, fresh: dict[int, NewTask]
) -> dict[int, Submitted]:
    """Stores the tasks for which there is room, and returns the refusals of the others.

    In the simple case a single statement, which is its own transaction: on a conflict, what was
    stored is found by its keys. So all have keys, or there is no conflict since none has one.
    """
    new, most = list(fresh.values()), known.allowance.quotas.queued
    account_id, after_ids = new[0].account_id, _after_ids(new)
    named = {task.id: blobs_of(task.request.spec) for task in new}
    mounts = {task.id: task.request.requirements.volumes for task in new}
    is_simple = not after_ids and not any(named.values()) and not any(mounts.values())
    has_mixed_keys = len({task.idempotency_key is None for task in new}) > 1
    is_one_statement = most is None and is_simple and not has_mixed_keys
    database = services.database
    async with database.statement() if is_one_statement else database.transaction() as connection:
        room = len(new) if most is None else await room_in_queue(connection, account_id, most)
        if room < len(new) and await _has_earlier(connection, new):
            raise _submitted_concurrently()  # they need no room
        new = new[: max(0, room)]
        after = await dependencies.lock_states(connection, after_ids, account_id)
        waits_for = {
            task.id: sum(not after[after_id].is_final for after_id in task.request.after)
            for task in new
            if task.request.after
        }
        seal = partial(tasks.seal_many, services.vault, new, waits_for)
        sealed = await off_loop_if_many(len(new), seal)
        if new and await tasks.insert_many(connection, sealed) < len(new):
            raise _submitted_concurrently()
        await link_dependencies(connection, new, after)
        await volumes.mount(connection, {task.id: mounts[task.id] for task in new})
        await blobs.claim_inputs(connection, account_id, {task.id: named[task.id] for task in new})
    assert most is not None or room == len(fresh)
    return {place: _refused(queue_full_error(most or 0)) for place in list(fresh)[len(new) :]}


async def _has_earlier(connection: Connection, new: Sequence[NewTask]) -> bool:
    """Whether one was stored since it was checked; none is while the queue is locked."""
    keys = [task.idempotency_key for task in new if task.idempotency_key is not None]
    return bool(keys) and await tasks.has_key(connection, new[0].account_id, keys)


def _submitted_concurrently() -> Conflict:
    return Conflict("The same list is being submitted concurrently.", "Send it again.")
