"""The provider's side of the API: register, lease, execute, report."""

from typing import Annotated, Any, Final

import msgspec
from litestar import Response
from litestar.params import HeaderParameter, QueryParameter
from msgspec.structs import replace

from potluck.local import tracing
from potluck.model.account import Scope
from potluck.model.blob import BlobRef
from potluck.model.device import Health
from potluck.model.error import (
    Conflict,
    DeviceBound,
    InvalidInput,
    QuotaExceeded,
    RangeNotSatisfiable,
    StaleLease,
)
from potluck.model.ids import ATTEMPT_PATTERN, AttemptId
from potluck.model.lease import Lease
from potluck.model.task import EndReason
from potluck.model.task_spec import ScriptSpec
from potluck.server.api.area import Area
from potluck.server.api.examples.machine import OFFER
from potluck.server.api.examples.names import (
    ACCOUNT,
    ATTEMPT,
    DEVICE,
    GPU,
    LEASE_TOKEN,
    NODE,
    ORIGIN,
    SIGNATURE,
    TASK,
    UPLOAD,
    WALLET,
    at,
)
from potluck.server.api.examples.work import BLOB, LEASE, QUEUED, SOURCE, USAGE
from potluck.server.api.http import download
from potluck.server.api.http.access import client_address
from potluck.server.api.http.body import StrictRequest
from potluck.server.api.http.parameters import (
    CallerRequest,
    node_id_of,
    owner_of,
    part_number,
    upload_id_of,
)
from potluck.server.auth import device_statement
from potluck.server.flow.execute import attempt_log
from potluck.server.flow.lease import lease
from potluck.server.flow.report.report import report as take_reports
from potluck.server.flow.submit import file_access, upload
from potluck.server.services import Services
from potluck.wire import routes
from potluck.wire.device_challenge import (
    PRODUCT_BYTES,
    ChallengeAnswer,
    ChallengeAnswers,
    ChallengesAnswered,
)
from potluck.wire.device_status import DeviceStatus
from potluck.wire.files import (
    PART_BYTES,
    AddedFile,
    AddFiles,
    BeginNodeUpload,
    KeepCheckpoint,
    Upload,
)
from potluck.wire.own_machines import LeaveNode
from potluck.wire.provider import (
    AcquireLeases,
    Grant,
    GrantedDevice,
    Heartbeat,
    HeartbeatAnswer,
    LeasesGranted,
    LogAppended,
    LogChunk,
    NodeRegistered,
    PackedLogPiece,
    ReportAnswer,
    ReportAnswers,
    Started,
)
from potluck.wire.signing.device_statement import DeviceStatement
from potluck.wire.strict_types import StrictFinished, StrictRegisterNode, StrictReports, StrictUsage

_MAX_LOG_CHUNK_BYTES = 4 * 2**20
_MAX_REPORT_BYTES = 4 * 2**20  # includes the return values of functions
_FOR_NOW = LeaveNode()
_MAX_FILES_BYTES = 8 * 2**20
AttemptQuery = Annotated[str, QueryParameter(name="attempt_id", pattern=ATTEMPT_PATTERN)]
LeaseHeader = Annotated[str, HeaderParameter(name="Potluck-Lease", min_length=16, max_length=128)]

# Examples.
_GIB = 2**30
_STATEMENT = DeviceStatement(GPU, ORIGIN, int(at(9, 30).timestamp()), SIGNATURE)
_GRANT = Grant(
    ATTEMPT,
    LEASE_TOKEN,
    TASK,
    ACCOUNT,
    WALLET,
    ScriptSpec("hello.py", SOURCE),
    QUEUED.requirements,
    QUEUED.limits,
    [GrantedDevice(DEVICE, GPU, 1000, 24 * _GIB)],
)
_DOING = DeviceStatus(
    GPU, health=Health.WELL, utilisation_percent=97.0, temperature_celsius=66.0, power_watts=412.5
)
_REPORTS = StrictReports(
    (
        Started(LEASE),
        StrictFinished(
            LEASE,
            EndReason.COMPLETED,
            0,
            usage=msgspec.convert(USAGE, StrictUsage, from_attributes=True),
        ),
    )
)

AREA: Final = Area(
    "provide",
    "Calls of a machine that works for a wallet, signed in with its node key: it registers its "
    "devices, waits for leases, sends heartbeats, reports, logs and files.",
)


@AREA.operation(
    routes.REGISTER_NODE,
    Scope.NODE,
    "Register a machine and its devices",
    request=StrictRegisterNode(OFFER, statements=(_STATEMENT,)),
    response=NodeRegistered(NODE, [DEVICE], 90.0, 20.0, 20.0, server_version="0.2.0"),
    errors=(DeviceBound,),
)
async def register_node(
    data: StrictRegisterNode, request: CallerRequest, services: Services
) -> NodeRegistered:
    """Offers a machine and its devices to the pool."""
    owner = owner_of(request.user)
    await device_statement.check(services, owner, data, services.clock.now())
    answer = await lease.register(services, owner, data)
    return replace(answer, address=client_address(request))


@AREA.operation(
    routes.ACQUIRE_LEASES,
    Scope.NODE,
    "Wait for work",
    request=AcquireLeases(),
    response=LeasesGranted([_GRANT]),
    status_code=200,
    is_timed=False,
)
async def acquire_leases(
    node_id: str, data: AcquireLeases, request: CallerRequest, services: Services
) -> LeasesGranted:
    """Waits for work. One response carries all new grants of the node."""
    return await lease.acquire(services, owner_of(request.user), node_id_of(node_id), data)


@AREA.operation(
    routes.HEARTBEAT,
    Scope.NODE,
    "Renew every lease",
    request=Heartbeat((LEASE,), 31.5, 22 * _GIB, (_DOING,)),
    response=HeartbeatAnswer(),
    status_code=200,
)
async def heartbeat(
    node_id: str, data: Heartbeat, request: CallerRequest, services: Services
) -> HeartbeatAnswer:
    """Renews every lease of the node, and returns the attempts to stop."""
    owner = owner_of(request.user)
    answer = await lease.heartbeat(services, owner, node_id_of(node_id), data)
    return replace(answer, address=client_address(request))


@AREA.operation(
    routes.GET_INPUT,
    Scope.NODE,
    "Fetch an input of a task",
    response=b"foo",
    errors=(RangeNotSatisfiable, StaleLease),
    media_type="application/octet-stream",
    is_timed=False,
)
async def get_input(
    node_id: str,
    sha256: str,
    request: StrictRequest,
    services: Services,
    attempt_id: AttemptQuery,
    token: LeaseHeader,
) -> Response[Any]:
    """Returns an input or checkpoint of a task that runs on this node, or a `Range` of it."""
    lease = Lease(AttemptId(attempt_id), token)
    owner, node = owner_of(request.user), node_id_of(node_id)
    stored = await file_access.of_attempt(services, owner, node, lease, download.sha256_of(sha256))
    return await download.answer(request, services, stored)


@AREA.operation(
    routes.APPEND_LOG,
    Scope.NODE,
    "Send pieces of a log",
    request=LogChunk(LEASE, 0, (PackedLogPiece("stdout", b"Hello from a GPU.\n"),)),
    response=LogAppended(1),
    errors=(StaleLease,),
    status_code=200,
    request_max_body_size=_MAX_LOG_CHUNK_BYTES,
    is_timed=False,
)
async def append_log(
    node_id: str, data: LogChunk, request: CallerRequest, services: Services
) -> LogAppended:
    """Appends log pieces of a live attempt. MessagePack avoids the base64 encoding."""
    return await attempt_log.append_log(services, owner_of(request.user), node_id_of(node_id), data)


@AREA.operation(
    routes.REPORT,
    Scope.NODE,
    "Report progress and outcomes",
    request=_REPORTS,
    response=ReportAnswers([ReportAnswer(ATTEMPT, True), ReportAnswer(ATTEMPT, True)]),
    status_code=200,
    request_max_body_size=_MAX_REPORT_BYTES,
)
async def report(
    node_id: str, data: StrictReports, request: CallerRequest, services: Services
) -> ReportAnswers:
    """Takes progress and outcomes of attempts. The response has one answer for each report."""
    with tracing.received(request.headers):
        return await take_reports(services, owner_of(request.user), node_id_of(node_id), data)


@AREA.operation(
    routes.BEGIN_NODE_UPLOAD,
    Scope.NODE,
    "Begin an upload for a task",
    request=BeginNodeUpload(LEASE, BLOB),
    response=Upload(UPLOAD, PART_BYTES, 0, False),
    errors=(Conflict, QuotaExceeded, StaleLease),
)
async def begin_node_upload(
    node_id: str, data: BeginNodeUpload, request: StrictRequest, services: Services
) -> Upload:
    """Begins or resumes an upload for the account that owns the task."""
    owner = owner_of(request.user)
    return await upload.begin_for_node(services, owner, node_id_of(node_id), data)


@AREA.operation(
    routes.PUT_NODE_PART,
    Scope.NODE,
    "Send a part for a task",
    request=b"foo",
    response=Upload(UPLOAD, PART_BYTES, 1, False),
    errors=(InvalidInput, Conflict, StaleLease),
    request_max_body_size=PART_BYTES,
    is_timed=False,
)
async def put_node_part(
    node_id: str, upload_id: str, number: str, request: StrictRequest, services: Services
) -> Upload:
    """Takes the next part, as plain bytes. Sending a stored part again is safe."""
    place, wanted = part_number(number), upload_id_of(upload_id)
    owner, node = owner_of(request.user), node_id_of(node_id)
    pending_upload, _ = await upload.of_node(services, owner, node, wanted)
    return await upload.take_part(services, pending_upload, place, request.pieces())


@AREA.operation(
    routes.FINISH_NODE_UPLOAD,
    Scope.NODE,
    "Finish an upload for a task",
    response=Upload(UPLOAD, PART_BYTES, 1, True),
    errors=(InvalidInput, Conflict, StaleLease),
    status_code=200,
)
async def finish_node_upload(
    node_id: str, upload_id: str, request: StrictRequest, services: Services
) -> Upload:
    """Assembles the parts and checks the hash. Call it again until `complete` is true."""
    owner, node = owner_of(request.user), node_id_of(node_id)
    pending_upload, sender = await upload.of_node(services, owner, node, upload_id_of(upload_id))
    return await upload.finish(services, pending_upload, sender)


@AREA.operation(
    routes.ADD_FILES,
    Scope.NODE,
    "Hand in the files of an attempt",
    request=AddFiles(LEASE, (AddedFile("results.csv", b"epoch,loss\n1,0.52\n"),)),
    errors=(QuotaExceeded, StaleLease),
    status_code=204,
    request_max_body_size=_MAX_FILES_BYTES,
    is_timed=False,
)
async def add_files(
    node_id: str, data: AddFiles, request: StrictRequest, services: Services
) -> None:
    """Adds output files of an attempt: small ones inline, large ones as uploaded blobs."""
    await file_access.add(services, owner_of(request.user), node_id_of(node_id), data)


@AREA.operation(
    routes.KEEP_CHECKPOINT,
    Scope.NODE,
    "Keep a checkpoint",
    request=KeepCheckpoint(LEASE, BlobRef(BLOB.sha256, 3)),
    errors=(StaleLease,),
    status_code=204,
)
async def keep_checkpoint(
    node_id: str, data: KeepCheckpoint, request: StrictRequest, services: Services
) -> None:
    """Sets the uploaded checkpoint that the next attempt resumes from."""
    await file_access.keep_checkpoint(services, owner_of(request.user), node_id_of(node_id), data)


@AREA.operation(
    routes.ANSWER_CHALLENGES,
    Scope.NODE,
    "Answer device challenges",
    request=ChallengeAnswers((ChallengeAnswer(GPU, "5e" * 32, bytes(PRODUCT_BYTES)),)),
    response=ChallengesAnswered([GPU]),
    status_code=200,
)
async def answer_challenges(
    node_id: str, data: ChallengeAnswers, request: CallerRequest, services: Services
) -> ChallengesAnswered:
    """Proves that the node can compute on devices that another wallet also claims."""
    owner = owner_of(request.user)
    return await lease.answer_challenges(services, owner, node_id_of(node_id), data)


@AREA.operation(
    routes.LEAVE, Scope.NODE, "Leave the pool", request=LeaveNode(is_for_good=True), status_code=204
)
async def leave(
    node_id: str, request: CallerRequest, services: Services, data: LeaveNode = _FOR_NOW
) -> None:
    """Removes the node from the pool. Its attempts go back to the queue immediately."""
    owner = owner_of(request.user)
    await lease.leave(
        services, owner, node_id_of(node_id), wish=data.wish, is_for_good=data.is_for_good
    )
