"""Tasks in the queue and running: list, show, explain, cancel, retry."""

from datetime import datetime
from typing import Annotated, Final

from litestar.params import QueryParameter

from potluck.model.account import Scope
from potluck.model.error import Conflict, InvalidInput, QuotaExceeded, UnaffordableTask
from potluck.model.ids import TaskId
from potluck.model.task import MOST_ITEMS, TaskState
from potluck.server.api.area import Area
from potluck.server.api.examples.names import TASK, at
from potluck.server.api.examples.work import AGAIN, CANCELLED, DONE, RAN
from potluck.server.api.http.pagination import Cursor, Limit, check_cursor
from potluck.server.api.http.parameters import CallerRequest, IdempotencyKey, call_id_of
from potluck.server.api.http.time_params import Since, Until, moment
from potluck.server.flow.notify import task_stream
from potluck.server.flow.schedule.explain_task import explain
from potluck.server.flow.settle import calls, cancel
from potluck.server.flow.submit import retry
from potluck.server.services import Services
from potluck.store.attempts import attempt_list
from potluck.store.tasks import task_list, tasks
from potluck.store.tasks.task_list import TaskFilter
from potluck.wire import routes
from potluck.wire.consumer import (
    AttemptPage,
    Explanation,
    RefusalCount,
    RetryTask,
    TaskCounts,
    TaskPage,
    TaskView,
)

States = Annotated[
    list[TaskState] | None, QueryParameter(name="state", max_items=len(TaskState), required=False)
]
Name = Annotated[str | None, QueryParameter(name="name", max_length=200, required=False)]
Find = Annotated[str | None, QueryParameter(name="find", max_length=200, required=False)]
Kind = Annotated[str | None, QueryParameter(name="kind", max_length=200, required=False)]
AttemptCursor = Annotated[
    int | None, QueryParameter(name="cursor", ge=1, le=2**31 - 1, required=False)
]
Item = Annotated[int | None, QueryParameter(name="item", ge=0, le=MOST_ITEMS, required=False)]

# Examples.
_COUNTED_TASKS = 10_000
_BUSY = "1 node is busy with other tasks."

AREA: Final = Area(
    "queue",
    "Where your tasks are, why they wait, and when they may start. A task is `queued`, "
    "`assigned`, `running`, and finally `succeeded`, `failed`, `cancelled` or `expired`.",
)


@AREA.operation(
    routes.LIST_TASKS, Scope.TASKS_READ, "List your tasks", response=TaskPage([DONE], TASK)
)
async def list_tasks(
    request: CallerRequest,
    services: Services,
    cursor: Cursor = None,
    states: States = None,
    task_name: Name = None,
    find: Find = None,
    task_kind: Kind = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
) -> TaskPage:
    """Lists your tasks, newest first, filtered by state, name, kind and submission time. A page may
    have fewer than `limit`: the last one has no `next_cursor`."""
    filters = _filter(states, task_name, find, task_kind, since, until)
    check_cursor(cursor, "task")
    before = None if cursor is None else TaskId(cursor)
    async with services.database.statement() as connection:
        page = await task_list.page(connection, request.user.id, filters, before, limit)
        found, last_id = await tasks.page_of_views(
            connection, services.vault, page.ids, request.user.id
        )
    views = await task_stream.to_task_views(services, request.user.id, found)
    return TaskPage(views, last_id or page.next_id)


@AREA.operation(
    routes.TASK_COUNTS,
    Scope.TASKS_READ,
    "Count your tasks",
    response=TaskCounts(
        {**dict.fromkeys(TaskState, 0), TaskState.QUEUED: 3, TaskState.SUCCEEDED: 41},
        _COUNTED_TASKS,
    ),
)
async def task_counts(
    request: CallerRequest,
    services: Services,
    task_name: Name = None,
    find: Find = None,
    task_kind: Kind = None,
    since: Since = None,
    until: Until = None,
) -> TaskCounts:
    """Counts your tasks by state, filtered as in the list. With a part of the name, only the
    newest tasks of each state and kind are compared: `capped` names states that have others."""
    filters = _filter(None, task_name, find, task_kind, since, until)
    async with services.database.statement() as connection:
        counts, capped = await task_list.count(connection, request.user.id, filters, _COUNTED_TASKS)
    return TaskCounts(counts, _COUNTED_TASKS, capped)


@AREA.operation(routes.GET_TASK, Scope.TASKS_READ, "See one task", response=DONE)
async def get_task(task_id: str, request: CallerRequest, services: Services) -> TaskView:
    """Returns one task with its attempts and, while it waits, the reason. `task#item` names one
    item of an array, such as a call of a stream, and returns it in the same form."""
    named, item = call_id_of(task_id)
    if item is not None:
        return await calls.view(services, request.user.id, named, item)
    return await task_stream.view(services, request.user.id, named)


@AREA.operation(
    routes.EXPLAIN_TASK,
    Scope.TASKS_READ,
    "Ask why a task waits",
    response=Explanation(
        TASK,
        TaskState.QUEUED,
        _BUSY,
        2,
        [
            RefusalCount("device_busy", 1, _BUSY),
            RefusalCount("device_model", 1, "1 node has no device of the wanted model."),
        ],
        ["It starts when a device on attic is free."],
        1,
        at(9, 52),
        "running tasks have a time limit",
        at(9, 41),
    ),
    is_timed=False,
)
async def explain_task(task_id: str, request: CallerRequest, services: Services) -> Explanation:
    """Explains why a task waits: which nodes refuse it, what helps, and when it may start."""
    return await explain(services, request.user.id, *call_id_of(task_id))


@AREA.operation(
    routes.CANCEL_TASK,
    Scope.TASKS_WRITE,
    "Cancel a task",
    response=CANCELLED,
    errors=(Conflict,),
    status_code=200,
)
async def cancel_task(task_id: str, request: CallerRequest, services: Services) -> TaskView:
    """Cancels a task in any state that is not final. `task#item` names one call of a stream."""
    named, item = call_id_of(task_id)
    if item is not None:
        return await calls.cancel(services, request.user.id, named, item)
    return await cancel.cancel(services, request.user.id, named)


@AREA.operation(
    routes.RETRY_TASK,
    Scope.TASKS_WRITE,
    "Retry a task",
    request=RetryTask(),
    response=AGAIN,
    errors=(UnaffordableTask, Conflict, QuotaExceeded),
)
async def retry_task(
    task_id: str,
    data: RetryTask,
    request: CallerRequest,
    services: Services,
    idempotency_key: IdempotencyKey = None,
) -> TaskView:
    """Submits a finished task again, as a new task with `retry_of`. For an array, only items that
    have not succeeded run again, under their numbers; `task#item` names one call of a stream, which
    becomes a task of its own. Safe to repeat with an Idempotency-Key."""
    named, item = call_id_of(task_id)
    if item is not None:
        return await calls.retry(services, request.user.id, named, item, data, idempotency_key)
    return await retry.retry_task(services, request.user.id, named, data, idempotency_key)


@AREA.operation(
    routes.LIST_ATTEMPTS,
    Scope.TASKS_READ,
    "List the attempts of a task",
    response=AttemptPage([RAN]),
)
async def list_attempts(
    task_id: str,
    request: CallerRequest,
    services: Services,
    cursor: AttemptCursor = None,
    limit: Limit = 50,
    item: Item = None,
) -> AttemptPage:
    """Lists attempts, newest first; with `item`, only attempts that were granted this item.

    With `item`, a page can be empty and still have a `next_cursor`.
    """
    named, of_call = call_id_of(task_id)
    item = item if of_call is None else of_call
    async with services.database.transaction() as connection:
        task = await tasks.get(connection, services.vault, named, request.user.id)
        return await attempt_list.page(connection, services.vault, task.view, cursor, limit, item)


def _filter(
    states: list[TaskState] | None,
    name: str | None,
    find: str | None,
    kind: str | None,
    since: datetime | None,
    until: datetime | None,
) -> TaskFilter:
    first, last = (None if time is None else moment(time) for time in (since, until))
    filters = TaskFilter(tuple(states or ()), name, find or None, kind, first, last)
    check_filter(filters)
    return filters


def check_filter(filters: TaskFilter) -> None:
    if filters.kind is not None and filters.kind not in task_list.KINDS:
        raise InvalidInput(
            f"{filters.kind!r} is not a kind of task.",
            f"Choose from: {', '.join(task_list.KINDS)}.",
        )
    if filters.name is not None and filters.find is not None:
        raise InvalidInput(
            "`name` is the whole name, and `find` a part of it.", "Give one of them."
        )
    if "\0" in (filters.name or "") + (filters.find or ""):
        raise InvalidInput("The name contains a NUL character.", "Remove it.")
