"""Submitting tasks and uploading their files."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from potluck.local import tracing
from potluck.model.account import Scope
from potluck.model.error import Conflict, InvalidInput, QuotaExceeded, UnaffordableTask, Unavailable
from potluck.server.api.area import Area
from potluck.server.api.examples.names import TASK, UPLOAD, at
from potluck.server.api.examples.work import BLOB, DONE, QUEUED, REQUEST
from potluck.server.api.http.body import StrictRequest
from potluck.server.api.http.parameters import (
    CallerRequest,
    IdempotencyKey,
    part_number,
    task_id_of,
    upload_id_of,
)
from potluck.server.flow.submit import append, shared_submissions, submit_many, upload
from potluck.server.flow.submit.estimate import estimate
from potluck.server.services import Services
from potluck.wire import item_file, routes
from potluck.wire.consumer import RefusalCount, TaskView
from potluck.wire.estimate import Estimate, Outlook
from potluck.wire.files import PART_BYTES, BeginUpload, Upload
from potluck.wire.results import AppendItems, ItemsAppended, Submitted, TasksSubmitted
from potluck.wire.strict_types import StrictSubmitTasks, StrictTaskRequest

_MAX_BATCH_BYTES = 8 * 2**20

# Examples.
_BEGUN = Upload(UPLOAD, PART_BYTES, 0, False)
_SENT = Upload(UPLOAD, PART_BYTES, 1, False)
_WHOLE = Upload(UPLOAD, PART_BYTES, 1, True)
_ESTIMATE = Estimate(
    Outlook.NOW,
    "It would start now: the only suitable device is free.",
    nodes=2,
    suitable_nodes=1,
    suitable_devices=1,
    free_devices=1,
    cheapest_micro_per_hour=250_000,
    dearest_micro_per_hour=250_000,
    hold_micro=250_000,
    most_micro=250_000,
    available_micro=5_000_000,
    estimated_start=at(9, 41),
    basis="there is room for it now",
    refusals=[RefusalCount("device_kind", 1, "1 node has no device of the wanted kind.")],
    at=at(9, 41),
)

AREA: Final = Area(
    "submit",
    "Submit work: a script, a function, a command or a container image, on devices that match. "
    "Upload its files first, in parts.",
)


@AREA.operation(
    routes.SUBMIT_TASK,
    Scope.TASKS_WRITE,
    "Submit a task",
    request=REQUEST,
    response=QUEUED,
    errors=(UnaffordableTask, Conflict, QuotaExceeded),
)
async def submit_task(
    data: StrictTaskRequest,
    request: CallerRequest,
    services: Services,
    idempotency_key: IdempotencyKey = None,
) -> TaskView:
    """Adds a task to the queue. With an Idempotency-Key it is safe to repeat."""
    with _traced(request) as traceparent:
        return await shared_submissions.submit(
            services, request.user.id, data, idempotency_key, traceparent
        )


@AREA.operation(
    routes.SUBMIT_TASKS,
    Scope.TASKS_WRITE,
    "Submit many tasks",
    request=StrictSubmitTasks((REQUEST,)),
    response=TasksSubmitted([Submitted(TASK)]),
    errors=(Conflict, QuotaExceeded),
    request_max_body_size=_MAX_BATCH_BYTES,
)
async def submit_tasks(
    data: StrictSubmitTasks,
    request: CallerRequest,
    services: Services,
    idempotency_key: IdempotencyKey = None,
) -> TasksSubmitted:
    """Adds many tasks to the queue. A refused task does not affect the others."""
    with _traced(request) as traceparent:
        return await submit_many.submit_many(
            services, request.user.id, data.tasks, idempotency_key, traceparent
        )


@AREA.operation(
    routes.APPEND_ITEMS,
    Scope.TASKS_WRITE,
    "Append calls to a stream",
    request=AppendItems(1, item_file.pack([b"foo"])),
    response=ItemsAppended(2),
    errors=(InvalidInput, Conflict),
)
async def append_items(
    task_id: str, data: AppendItems, request: CallerRequest, services: Services
) -> ItemsAppended:
    """Adds further calls to a call stream. `start` is the index that the first of them gets, so it
    is safe to repeat: other bytes at the same place are a conflict, as is a stream that is full or
    closed."""
    return await append.append(services, request.user.id, task_id_of(task_id), data)


@AREA.operation(
    routes.CLOSE_STREAM,
    Scope.TASKS_WRITE,
    "Close a stream",
    response=DONE,
    errors=(Conflict,),
    status_code=200,
)
async def close_stream(task_id: str, request: CallerRequest, services: Services) -> TaskView:
    """Ends a call stream once all its calls have an outcome; it takes no more of them."""
    return await append.close(services, request.user.id, task_id_of(task_id))


@AREA.operation(
    routes.ESTIMATE_TASK,
    Scope.TASKS_WRITE,
    "Estimate a task",
    request=REQUEST,
    response=_ESTIMATE,
    errors=(Unavailable, QuotaExceeded),
    status_code=200,
    is_timed=False,
)
async def estimate_task(
    data: StrictTaskRequest, request: CallerRequest, services: Services
) -> Estimate:
    """Estimates cost, start time and suitable devices of a task, as if it were submitted now.
    Nothing is stored or reserved."""
    await services.limiter.check_estimate(request.user.id)
    return await estimate(services, request.user.id, data)


@AREA.operation(
    routes.BEGIN_UPLOAD,
    Scope.TASKS_WRITE,
    "Begin an upload",
    request=BeginUpload(BLOB),
    response=_BEGUN,
    errors=(Conflict, QuotaExceeded),
)
async def begin_upload(data: BeginUpload, request: StrictRequest, services: Services) -> Upload:
    """Begins or resumes an upload. It is complete at once if you already have these bytes."""
    return await upload.begin(services, request.user.id, data.blob)


@AREA.operation(
    routes.PUT_PART,
    Scope.TASKS_WRITE,
    "Send a part",
    request=b"foo",
    response=_SENT,
    errors=(InvalidInput, Conflict),
    request_max_body_size=PART_BYTES,
    is_timed=False,
)
async def put_part(
    upload_id: str, number: str, request: StrictRequest, services: Services
) -> Upload:
    """Takes the next part, as plain bytes. Sending a stored part again is safe."""
    place = part_number(number)
    pending_upload = await upload.of_account(services, request.user.id, upload_id_of(upload_id))
    return await upload.take_part(services, pending_upload, place, request.pieces())


@AREA.operation(
    routes.FINISH_UPLOAD,
    Scope.TASKS_WRITE,
    "Finish an upload",
    response=_WHOLE,
    errors=(InvalidInput, Conflict),
    status_code=200,
)
async def finish_upload(upload_id: str, request: StrictRequest, services: Services) -> Upload:
    """Assembles the parts and checks the hash. Call it again until `complete` is true."""
    pending_upload = await upload.of_account(services, request.user.id, upload_id_of(upload_id))
    return await upload.finish(services, pending_upload)


@contextmanager
def _traced(request: CallerRequest) -> Iterator[str | None]:
    """Continues the client's trace. Without one there is none: then nothing is stored."""
    parent = tracing.parse_traceparent(request.headers.get(tracing.TRACEPARENT))
    if parent is None:
        yield None
        return
    with tracing.span("submit", parent) as traceparent:
        yield traceparent
