"""Results: logs, files, return values."""

from typing import Annotated, Any, Final

from litestar import Response
from litestar.params import QueryParameter

from potluck.model.account import Scope
from potluck.model.blob import NamedFile, Value
from potluck.model.error import Conflict, InvalidInput, NotFound, RangeNotSatisfiable
from potluck.model.task import MOST_ITEMS, EndReason, ItemRange, TaskState
from potluck.server.api.area import Area
from potluck.server.api.examples.names import ATTEMPT, NODE, OWNER, TASK
from potluck.server.api.examples.work import BLOB, DONE
from potluck.server.api.http import download
from potluck.server.api.http.pagination import Limit, LongLimit, bad_cursor
from potluck.server.api.http.parameters import CallerRequest, call_id_of, task_id_of
from potluck.server.flow.execute import attempt_log
from potluck.server.flow.report import result_poll
from potluck.server.flow.submit import file_access
from potluck.server.services import Services
from potluck.store.tasks import function_results, item_failures, tasks
from potluck.wire import routes
from potluck.wire.consumer import (
    FailedItem,
    FailedItemPage,
    ItemCounts,
    ItemStates,
    LogPage,
    LogPiece,
)
from potluck.wire.files import TaskFiles
from potluck.wire.results import AskResults, ResultPiece, Results, TaskResult, Wanted

Offset = Annotated[int, QueryParameter(name="offset", ge=-1_000_000, le=1_000_000)]
AttemptNumber = Annotated[
    int | None, QueryParameter(name="attempt", ge=1, le=1_000_000, required=False)
]
FileCursor = Annotated[str | None, QueryParameter(name="cursor", max_length=1_000, required=False)]
ItemCursor = Annotated[int, QueryParameter(name="cursor", ge=-1, le=MOST_ITEMS)]
FirstItem = Annotated[
    int, QueryParameter(name="start", ge=0, lt=MOST_ITEMS, description="The first item.")
]
EndItem = Annotated[
    int, QueryParameter(name="end", ge=1, le=MOST_ITEMS, description="The item after the last one.")
]

# Examples.
_VALUE = b"\x07"  # MessagePack of 7

AREA: Final = Area(
    "results",
    "The results of a task: its log, its output files, the return value of its function. They are "
    "kept until the task's `kept_until`.",
)


@AREA.operation(
    routes.TASK_LOGS,
    Scope.TASKS_READ,
    "Read a log",
    response=LogPage(ATTEMPT, 0, 1, [LogPiece("stdout", b"Hello from a GPU.\n")], True),
)
async def task_logs(
    task_id: str,
    request: CallerRequest,
    services: Services,
    attempt: AttemptNumber = None,
    offset: Offset = 0,
) -> LogPage:
    """Returns a page of the log of the newest attempt, or of the attempt with this number. A
    negative offset counts from the end: -10 begins with the tenth piece from the end."""
    valid_id = task_id_of(task_id)
    async with services.database.transaction() as connection:
        await tasks.get(connection, services.vault, valid_id, request.user.id)
    return await attempt_log.read_log(services, request.user.id, valid_id, attempt, offset)


@AREA.operation(
    routes.TASK_FILES,
    Scope.TASKS_READ,
    "List the files of a task",
    response=TaskFiles(1, [NamedFile("results.csv", BLOB)], DONE.kept_until),
)
async def task_files(
    task_id: str,
    request: CallerRequest,
    services: Services,
    attempt: AttemptNumber = None,
    cursor: FileCursor = None,
    limit: Limit = 500,
) -> TaskFiles:
    """Lists files of the newest attempt that has any, or of the attempt with this number;
    `task#item` names one item of an array."""
    if "\0" in (cursor or ""):
        raise bad_cursor()
    named, item = call_id_of(task_id)
    owner_id = request.user.id
    return await file_access.of_task(services, owner_id, named, attempt, cursor, limit, item)


@AREA.operation(
    routes.GET_BLOB,
    Scope.TASKS_READ,
    "Fetch the bytes of a file",
    response=b"foo",
    errors=(RangeNotSatisfiable,),
    media_type="application/octet-stream",
    is_timed=False,
)
async def get_blob(sha256: str, request: CallerRequest, services: Services) -> Response[Any]:
    """Returns the bytes of one of your blobs, or a `Range` of them."""
    stored = await file_access.of_account(services, request.user.id, download.sha256_of(sha256))
    return await download.answer(request, services, stored)


@AREA.operation(
    routes.ASK_RESULTS,
    Scope.TASKS_READ,
    "Wait for function results",
    request=AskResults((Wanted(TASK),), 20.0),
    response=Results(
        [
            TaskResult(
                TASK,
                TaskState.SUCCEEDED,
                1,
                [ResultPiece(0, 1, Value(_VALUE), node_id=NODE, wallet=OWNER)],
                EndReason.COMPLETED,
            )
        ]
    ),
    errors=(NotFound,),
    status_code=200,
    is_timed=False,
)
async def ask_results(data: AskResults, request: CallerRequest, services: Services) -> Results:
    """Waits for results of functions. MessagePack avoids the base64 encoding."""
    return await result_poll.wait_for_results(services, request.user.id, data)


@AREA.operation(
    routes.FAILED_ITEMS,
    Scope.TASKS_READ,
    "List the failed items of an array",
    response=FailedItemPage([FailedItem(113, 1, True, ATTEMPT, EndReason.EXIT_STATUS, 3)]),
)
async def failed_items(
    task_id: str,
    request: CallerRequest,
    services: Services,
    cursor: ItemCursor = -1,
    limit: LongLimit = 100,
) -> FailedItemPage:
    """Lists failed items of an array in order, starting after the item `cursor`."""
    valid_id = task_id_of(task_id)
    async with services.database.transaction() as connection:
        await tasks.get(connection, services.vault, valid_id, request.user.id)
        found = await item_failures.page(connection, services.vault, valid_id, cursor, limit)
    return FailedItemPage(found, found[-1].item if len(found) == limit else None)


@AREA.operation(
    routes.ITEM_STATES,
    Scope.TASKS_READ,
    "See the states of the items of an array",
    response=ItemStates(
        200,
        [ItemRange(120, 200)],
        [ItemRange(100, 120)],
        [ItemRange(7, 8)],
        [],
        ItemCounts(200, 80, 99, 1),
    ),
    errors=(Conflict,),
)
async def item_states(
    task_id: str,
    request: CallerRequest,
    services: Services,
    start: FirstItem = 0,
    end: EndItem = MOST_ITEMS,
) -> ItemStates:
    """Returns the states of all items as ranges, and until when a call stream takes calls. With
    `start` and `end` only of the items from `start` up to but not including `end`, in smaller
    blocks."""
    valid_id = task_id_of(task_id)
    if start >= end:
        raise InvalidInput(
            f"`end` {end} must be greater than `start` {start}.", "Omit it for all items."
        )
    async with services.database.transaction() as connection:
        await tasks.get(connection, services.vault, valid_id, request.user.id)
        states = await item_failures.read_states(connection, valid_id, ItemRange(start, end))
    if states is None:
        raise Conflict(f"{valid_id} is not an array, so it has no items.", "See the task itself.")
    return states


@AREA.operation(
    routes.TASK_RESULT,
    Scope.TASKS_READ,
    "Fetch the return value of a function",
    response=ResultPiece(0, 1, Value(_VALUE), node_id=NODE, wallet=OWNER),
)
async def task_result(task_id: str, request: CallerRequest, services: Services) -> ResultPiece:
    """Returns the result of a function; with `task#item` the piece of an array's results that
    contains this item."""
    named, item = call_id_of(task_id)
    async with services.database.transaction() as connection:
        await tasks.get(connection, services.vault, named, request.user.id)
        piece = await function_results.find(connection, services.vault, named, item or 0)
    if piece is None:
        raise NotFound(
            f"{task_id} has no result.", "It returned none yet, or its results were deleted."
        )
    return piece
