"""Cancels or retries many tasks: a preview says which, and only these are touched.

Each task of a preview has its version. A task that has changed since then is left alone, so that
nothing happens to a task that the preview did not show.
"""

from msgspec import Struct
from msgspec.structs import replace

from potluck.model.error import PotluckError
from potluck.model.ids import AccountId, TaskId
from potluck.model.task import TaskState
from potluck.server.flow.settle import cancel
from potluck.server.flow.submit import retry
from potluck.server.services import Services
from potluck.store.tasks import task_list, tasks
from potluck.store.tasks.task_list import TaskFilter
from potluck.store.tasks.tasks import TaskChanged
from potluck.wire.consumer import RetryTask
from potluck.wire.dashboard.task_actions import (
    MOST_TASKS,
    ActionOutcome,
    ActionPreview,
    ActionResult,
    ActionTarget,
    AffectedTask,
    TaskAction,
)

_SERVER_ERROR = 500


class Requester(Struct, frozen=True):
    """Whose tasks; with a key, a repeated request retries nothing twice."""

    account_id: AccountId
    idempotency_key: str | None


async def preview(
    services: Services, account_id: AccountId, action: TaskAction, selection: TaskFilter
) -> ActionPreview:
    possible = [state for state in TaskState if state.is_final == (action is TaskAction.RETRY)]
    states = [state for state in selection.states or possible if state in possible]
    if not states:
        return ActionPreview(action, [], has_more=False)
    narrowed = replace(selection, states=tuple(states))
    async with services.database.statement() as connection:
        page = await task_list.page(connection, account_id, narrowed, None, MOST_TASKS + 1)
        rows = await tasks.versions(connection, page.ids[:MOST_TASKS], account_id)
    affected = [AffectedTask(row.id, row.version, row.name, row.state) for row in rows]
    return ActionPreview(action, affected, has_more=page.next_id is not None)


async def apply(
    services: Services, requester: Requester, action: TaskAction, targets: tuple[ActionTarget, ...]
) -> list[ActionResult]:
    """One by one: a task that is refused does not affect the others."""
    return [await _apply_one(services, requester, action, target) for target in targets]


async def _apply_one(
    services: Services, requester: Requester, action: TaskAction, target: ActionTarget
) -> ActionResult:
    try:
        new_task_id = await _act(services, requester, action, target)
    except TaskChanged:
        return ActionResult(target.id, ActionOutcome.CHANGED, "It has changed since the preview.")
    except PotluckError as error:
        if error.status >= _SERVER_ERROR:
            raise
        return ActionResult(target.id, ActionOutcome.REFUSED, error.detail)
    return ActionResult(target.id, ActionOutcome.DONE, new_task_id=new_task_id)


async def _act(
    services: Services, requester: Requester, action: TaskAction, target: ActionTarget
) -> TaskId | None:
    account_id = requester.account_id
    if action is TaskAction.CANCEL:
        await cancel.cancel(services, account_id, target.id, target.version)
        return None
    given = requester.idempotency_key
    key = None if given is None else f"{given}/{target.id}"
    retried = await retry.retry_task(
        services, account_id, target.id, RetryTask(), key, target.version
    )
    return retried.id
