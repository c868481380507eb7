"""Single submissions of one account that arrive together share a transaction, as a list does.

Each has its own answer. One that a list refuses, and all of a list that fails, are tried alone:
that gives the same answer as if it had come alone.
"""

from collections.abc import Sequence

import structlog

from potluck.model.error import PotluckError, Unavailable
from potluck.model.ids import AccountId
from potluck.model.task import TaskRequest
from potluck.server.flow.batch import try_batch_then_each
from potluck.server.flow.notify.notify import wake_leader
from potluck.server.flow.notify.task_stream import add_pause_reason
from potluck.server.flow.submit import submit as single_submission
from potluck.server.flow.submit.submit_many import enqueue_list
from potluck.server.services import Services
from potluck.store.tasks import tasks
from potluck.store.tasks.tasks import NewTask, TaskRecord
from potluck.wire.consumer import TaskView

log = structlog.get_logger()


async def submit(
    services: Services,
    account_id: AccountId,
    request: TaskRequest,
    idempotency_key: str | None,
    traceparent: str | None = None,
) -> TaskView:
    new = single_submission.make_new_task(
        services, account_id, request, idempotency_key, traceparent=traceparent
    )
    if request.is_stream:
        record = await single_submission.store(services, new)
    else:

        async def store(new: Sequence[NewTask]) -> Sequence[TaskRecord | Exception]:
            return await _store_batch(services, new)

        record = await services.submissions.add(account_id, new, store)
    log.info("task submitted", task_id=record.view.id)
    await wake_leader(services)
    return add_pause_reason(record)


async def _store_batch(services: Services, new: Sequence[NewTask]) -> list[TaskRecord | Exception]:
    async def store_list(places: Sequence[int]) -> dict[int, TaskRecord | Exception]:
        return await _store_list(services, new) if len(places) > 1 else {}

    async def store_alone(place: int) -> TaskRecord | Exception:
        try:
            return await single_submission.store(services, new[place])
        except PotluckError as error:
            return error

    # Without the database nothing is tried again: the list may have been stored.
    answers = await try_batch_then_each(
        range(len(new)), store_list, store_alone, catch=PotluckError, but=Unavailable
    )
    return [answers[place] for place in range(len(new))]


async def _store_list(
    services: Services, new: Sequence[NewTask]
) -> dict[int, TaskRecord | Exception]:
    """Those that were stored, or had been before; by their index."""
    submitted = await enqueue_list(services, new)
    task_ids = [answer.task_id for answer in submitted.values() if answer.task_id is not None]
    async with services.database.statement() as connection:
        records = await tasks.views(connection, services.vault, task_ids, new[0].account_id)
    by_id = {record.view.id: record for record in records}
    return {
        place: by_id[answer.task_id]
        for place, answer in submitted.items()
        if answer.task_id in by_id
    }
