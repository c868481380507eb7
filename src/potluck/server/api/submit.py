"""Submitting: tasks, and the files that they take along."""

from typing import Final

from potluck.model.account import Scope
from potluck.model.error import Conflict, InvalidInput, QuotaExceeded, UnaffordableTask, Unavailable
from potluck.server.api.area import Area
from potluck.server.api.examples.names import TASK, UPLOAD, at
from potluck.server.api.examples.work import BLOB, QUEUED, REQUEST
from potluck.server.api.http.body import StrictRequest
from potluck.server.api.http.parameters import (
    CallerRequest,
    IdempotencyKey,
    part_number,
    upload_id_of,
)
from potluck.server.flow.submit import submit, submit_many, upload
from potluck.server.flow.submit.estimate import estimate
from potluck.server.services import Services
from potluck.wire import routes
from potluck.wire.consumer import RefusalCount, TaskView
from potluck.wire.estimate import Estimate, Outlook
from potluck.wire.files import PART_BYTES, BeginUpload, Upload
from potluck.wire.results import Submitted, TasksSubmitted
from potluck.wire.strict_types import StrictSubmitTasks, StrictTaskRequest

_MAX_BATCH_BYTES = 8 * 2**20

# For the examples.
_BEGUN = Upload(UPLOAD, PART_BYTES, 0, False)
_SENT = Upload(UPLOAD, PART_BYTES, 1, False)
_WHOLE = Upload(UPLOAD, PART_BYTES, 1, True)
_ESTIMATE = Estimate(
    Outlook.NOW,
    "It would start now: the one device that suits it is free.",
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
    "Ask for something to be run: a script, a function, a command or an image, on devices that "
    "fit. What it takes along is uploaded first, in parts.",
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
    """Puts a task into the queue. With an Idempotency-Key it may be repeated safely."""
    return await submit.submit(services, request.user.id, data, idempotency_key)


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
    """Puts many tasks into the queue; one that is refused is no matter to the others."""
    return await submit_many.submit_many(services, request.user.id, data.tasks, idempotency_key)


@AREA.operation(
    routes.ESTIMATE_TASK,
    Scope.TASKS_WRITE,
    "Ask what a task would meet",
    request=REQUEST,
    response=_ESTIMATE,
    errors=(Unavailable,),
    status_code=200,
)
async def estimate_task(
    data: StrictTaskRequest, request: CallerRequest, services: Services
) -> Estimate:
    """What a task would meet if it were submitted now: who could take it, for how much, and
    when. Nothing is stored, and nothing is promised."""
    await services.limiter.check_estimate(request.user.id)
    return await estimate(services, request.user.id, data)


@AREA.operation(
    routes.BEGIN_UPLOAD,
    Scope.TASKS_WRITE,
    "Begin an upload",
    request=BeginUpload(BLOB),
    response=_BEGUN,
    errors=(QuotaExceeded,),
)
async def begin_upload(data: BeginUpload, request: StrictRequest, services: Services) -> Upload:
    """Begins to send bytes, or goes on with it. Complete at once if you have them here."""
    return await upload.begin(services, request.user.id, data.blob)


@AREA.operation(
    routes.PUT_PART,
    Scope.TASKS_WRITE,
    "Send a part",
    request=b"foo",
    response=_SENT,
    errors=(InvalidInput, Conflict),
    request_max_body_size=PART_BYTES,
)
async def put_part(
    upload_id: str, number: str, request: StrictRequest, services: Services
) -> Upload:
    """The next part, as plain bytes. One that is there already may be sent again."""
    place = part_number(number)
    found = await upload.of_account(services, request.user.id, upload_id_of(upload_id))
    return await upload.take_part(services, found, place, request.pieces())


@AREA.operation(
    routes.FINISH_UPLOAD,
    Scope.TASKS_WRITE,
    "Finish an upload",
    response=_WHOLE,
    errors=(InvalidInput, Conflict),
    status_code=200,
)
async def finish_upload(upload_id: str, request: StrictRequest, services: Services) -> Upload:
    """Puts all parts together and checks their hash; until it is complete, ask again."""
    found = await upload.of_account(services, request.user.id, upload_id_of(upload_id))
    return await upload.finish(services, found)
