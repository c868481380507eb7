"""Consumers: submit, look, cancel, follow."""

from typing import Annotated, Any

from litestar import Controller, Request, get, post
from litestar.params import HeaderParameter, QueryParameter
from litestar.response import ServerSentEvent, ServerSentEventMessage

from potluck.model.error import InvalidInput, NotFound
from potluck.model.ids import TaskId, is_id
from potluck.model.task import TaskState
from potluck.server.api import pagination
from potluck.server.api.idempotency import IdempotencyKey
from potluck.server.api.stream import stream
from potluck.server.api.time_params import Since, Until, moment
from potluck.server.auth.caller import Caller
from potluck.server.flow.execute import attempt_log
from potluck.server.flow.notify import task_stream
from potluck.server.flow.notify.task_stream import Followed
from potluck.server.flow.settle import cancel
from potluck.server.flow.submit import submit, submit_many
from potluck.server.flow.submit.retry import retry_task
from potluck.server.services import Parts
from potluck.store.tasks import task_list, tasks
from potluck.store.tasks.task_list import TaskFilter
from potluck.wire import codec, routes
from potluck.wire.consumer import FollowedLog, LogPage, TaskPage, TaskView
from potluck.wire.results import TasksSubmitted
from potluck.wire.retry_request import RetryTask
from potluck.wire.strict_types import StrictSubmitTasks, StrictTaskRequest

_MAX_BATCH_BYTES = 8 * 2**20

Cursor = Annotated[str | None, QueryParameter(name="cursor", max_length=64, required=False)]
Limit = Annotated[int, QueryParameter(name="limit", ge=1, le=500)]
States = Annotated[
    list[TaskState] | None, QueryParameter(name="state", max_items=len(TaskState), required=False)
]
Name = Annotated[str | None, QueryParameter(name="name", max_length=200, required=False)]
Kind = Annotated[str | None, QueryParameter(name="kind", max_length=200, required=False)]
Offset = Annotated[int, QueryParameter(name="offset", ge=0, le=1_000_000)]
LastEventId = Annotated[
    str | None, HeaderParameter(name="Last-Event-ID", max_length=200, required=False)
]
AttemptNumber = Annotated[
    int | None, QueryParameter(name="attempt", ge=1, le=1_000_000, required=False)
]


class TaskController(Controller):
    @post(routes.SUBMIT_TASK.template, operation_id="submit_task")
    async def submit(
        self,
        data: StrictTaskRequest,
        request: Request[Caller, Any, Any],
        parts: Parts,
        idempotency_key: IdempotencyKey = None,
    ) -> TaskView:
        """Puts a task into the queue. With an Idempotency-Key it may be repeated safely."""
        return await submit.submit(parts, request.user.id, data, idempotency_key)

    @post(
        routes.SUBMIT_TASKS.template,
        operation_id="submit_tasks",
        request_max_body_size=_MAX_BATCH_BYTES,
    )
    async def submit_many(
        self,
        data: StrictSubmitTasks,
        request: Request[Caller, Any, Any],
        parts: Parts,
        idempotency_key: IdempotencyKey = None,
    ) -> TasksSubmitted:
        """Puts many tasks into the queue; one that is refused is no matter to the others."""
        return await submit_many.submit_many(parts, request.user.id, data.tasks, idempotency_key)

    @get(routes.LIST_TASKS.template, operation_id="list_tasks")
    async def list_tasks(
        self,
        request: Request[Caller, Any, Any],
        parts: Parts,
        cursor: Cursor = None,
        states: States = None,
        task_name: Name = None,
        task_kind: Kind = None,
        since: Since = None,
        until: Until = None,
        limit: Limit = 50,
    ) -> TaskPage:
        """Your tasks, newest first: in any of these states, submitted since and before then."""
        first, last = (None if each is None else moment(each) for each in (since, until))
        wanted = TaskFilter(tuple(states or ()), task_name, task_kind, first, last)
        _check_filter(wanted)
        pagination.check(cursor, "task")
        before = None if cursor is None else TaskId(cursor)
        async with parts.database.transaction() as connection:
            ids = await task_list.page(connection, request.user.id, wanted, before, limit)
            found = await tasks.views(connection, ids, request.user.id)
        views = await task_stream.as_shown(parts, request.user.id, found)
        return TaskPage(views, ids[-1] if len(ids) == limit else None)

    @get(routes.GET_TASK.template, operation_id="get_task")
    async def get_task(
        self, task_id: str, request: Request[Caller, Any, Any], parts: Parts
    ) -> TaskView:
        """One task, with its attempts and, while it waits, the reason."""
        return await task_stream.view(parts, request.user.id, task_id_of(task_id))

    @post(routes.CANCEL_TASK.template, operation_id="cancel_task", status_code=200)
    async def cancel(
        self, task_id: str, request: Request[Caller, Any, Any], parts: Parts
    ) -> TaskView:
        """Calls a task off, whatever it is doing."""
        return await cancel.cancel(parts, request.user.id, task_id_of(task_id))

    @post(routes.RETRY_TASK.template, operation_id="retry_task")
    async def retry(
        self,
        task_id: str,
        data: RetryTask,
        request: Request[Caller, Any, Any],
        parts: Parts,
        idempotency_key: IdempotencyKey = None,
    ) -> TaskView:
        """Submits a task that has ended once more, as a new one that names it. Of an array, the
        items that have not succeeded, under their numbers. With an Idempotency-Key it may be
        repeated safely."""
        named = task_id_of(task_id)
        return await retry_task(parts, request.user.id, named, data, idempotency_key)

    @get(routes.TASK_LOGS.template, operation_id="task_logs")
    async def logs(
        self,
        task_id: str,
        request: Request[Caller, Any, Any],
        parts: Parts,
        attempt: AttemptNumber = None,
        offset: Offset = 0,
    ) -> LogPage:
        """A page of the log of the newest attempt, or of the attempt with this number."""
        wanted = task_id_of(task_id)
        async with parts.database.transaction() as connection:
            await tasks.get(connection, wanted, request.user.id)
        return await attempt_log.read_log(parts, request.user.id, wanted, attempt, offset)

    @get(routes.FOLLOW_TASK.template, operation_id="follow_task", media_type="text/event-stream")
    async def follow(
        self,
        task_id: str,
        request: Request[Caller, Any, Any],
        parts: Parts,
        last_event_id: LastEventId = None,
    ) -> ServerSentEvent:
        """States and log pieces as they come; `Last-Event-ID` goes on where a stream was cut."""
        wanted = task_id_of(task_id)
        # An id that is not yours is a 404 now, not an error in the middle of a stream.
        await task_stream.view(parts, request.user.id, wanted)
        position = task_stream.parse_position(last_event_id)
        followed = task_stream.follow(parts, request.user.id, wanted, position)
        return stream(request, followed, _message)


def _message(followed: Followed) -> ServerSentEventMessage:
    if followed.event is None:
        return ServerSentEventMessage(data=None, comment="still here")
    return ServerSentEventMessage(
        event="log" if isinstance(followed.event, FollowedLog) else "state",
        id=str(followed.position),
        data=codec.encode_json(followed.event).decode(),
    )


def task_id_of(text: str) -> TaskId:
    if not is_id(text, "task"):
        raise NotFound(f"{text[:64]!r} is not the id of a task.", "`potluck ps` lists your tasks.")
    return TaskId(text)


def wanted_task(text: str) -> TaskId:
    """For a filter: of somebody else's task there is just nothing."""
    if not is_id(text, "task"):
        raise InvalidInput(
            f"{text[:64]!r} is not the id of a task.", "`potluck ps` lists your tasks."
        )
    return TaskId(text)


def _check_filter(wanted: TaskFilter) -> None:
    if wanted.kind is not None and wanted.kind not in task_list.KINDS:
        raise InvalidInput(
            f"{wanted.kind!r} is not a kind of task.", f"Choose from: {', '.join(task_list.KINDS)}."
        )
    if "\0" in (wanted.name or ""):
        raise InvalidInput("A name has no NUL in it.", "Leave it out.")
