"""Actions on many tasks, templates, and what was submitted."""

import asyncio
from typing import Final

from potluck.model.account import Scope
from potluck.model.error import Conflict
from potluck.model.task import TaskState
from potluck.server.api.area import Area
from potluck.server.api.examples.names import TASK
from potluck.server.api.examples.work import REQUEST
from potluck.server.api.http.parameters import CallerRequest, IdempotencyKey, task_id_of
from potluck.server.api.http.time_params import moment
from potluck.server.api.queue import check_filter
from potluck.server.flow import task_actions
from potluck.server.flow.task_actions import Requester
from potluck.server.services import Services
from potluck.server.template_list import list_templates as read_templates
from potluck.store.tasks import retry_source
from potluck.store.tasks.task_list import TaskFilter
from potluck.wire import routes
from potluck.wire.dashboard.task_actions import (
    ActionOutcome,
    ActionPreview,
    ActionResult,
    ActionResults,
    ActionTarget,
    AffectedTask,
    ApplyAction,
    PreviewAction,
    TaskAction,
    TaskSelection,
)
from potluck.wire.dashboard.templates import (
    OriginalRequest,
    TemplateFile,
    TemplateList,
    TemplateParameter,
    TemplateView,
)

AREA: Final = Area(
    "many tasks",
    "Cancel or retry many tasks, after a preview of exactly which; templates, and the request of "
    "an earlier task, to start from.",
)


@AREA.operation(
    routes.PREVIEW_ACTION,
    Scope.TASKS_READ,
    "Preview an action on many tasks",
    request=PreviewAction(TaskAction.CANCEL, TaskSelection((TaskState.QUEUED,), name="train.py")),
    response=ActionPreview(
        TaskAction.CANCEL, [AffectedTask(TASK, 3, "train.py", TaskState.QUEUED)], has_more=False
    ),
    status_code=200,
)
async def preview_action(
    data: PreviewAction, request: CallerRequest, services: Services
) -> ActionPreview:
    """Lists the tasks that the action would touch, newest first, with their versions. Changes
    nothing."""
    chosen = data.selection
    since, until = (None if at is None else moment(at) for at in (chosen.since, chosen.until))
    selection = TaskFilter(
        chosen.states, chosen.name, chosen.find or None, chosen.kind, since, until
    )
    check_filter(selection)
    return await task_actions.preview(services, request.user.id, data.action, selection)


@AREA.operation(
    routes.APPLY_ACTION,
    Scope.TASKS_WRITE,
    "Cancel or retry many tasks",
    request=ApplyAction(TaskAction.CANCEL, (ActionTarget(TASK, 3),)),
    response=ActionResults([ActionResult(TASK, ActionOutcome.DONE)]),
    errors=(Conflict,),
    status_code=200,
)
async def apply_action(
    data: ApplyAction,
    request: CallerRequest,
    services: Services,
    idempotency_key: IdempotencyKey = None,
) -> ActionResults:
    """Affects only these tasks, and only those that still have the given version. With an
    Idempotency-Key, a repeated request retries nothing twice."""
    requester = Requester(request.user.id, idempotency_key)
    return ActionResults(await task_actions.apply(services, requester, data.action, data.tasks))


@AREA.operation(
    routes.LIST_TEMPLATES,
    Scope.TASKS_READ,
    "List the templates",
    response=TemplateList(
        [
            TemplateView(
                "hello",
                "Greets, and says where it ran.",
                [TemplateParameter("name", "Whom to greet.", "world")],
                REQUEST,
                [TemplateFile("notes.txt", "Nothing to see here.")],
            )
        ]
    ),
)
async def list_templates() -> TemplateList:
    """Returns ready tasks. Fill in the parameters, upload the files, and submit the request."""
    return await asyncio.to_thread(read_templates)


@AREA.operation(
    routes.TASK_REQUEST,
    Scope.TASKS_READ,
    "See what was submitted",
    response=OriginalRequest(REQUEST, 0),
)
async def task_request(task_id: str, request: CallerRequest, services: Services) -> OriginalRequest:
    """Returns the request of a task, without secrets, to submit it again with changes."""
    async with services.database.statement() as connection:
        source = await retry_source.load_source(
            connection, services.vault, task_id_of(task_id), request.user.id
        )
    return OriginalRequest(source.request, source.secret_count)
