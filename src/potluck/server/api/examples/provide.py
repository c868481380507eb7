"""What a provider says: register, lease, execute, report."""

from typing import Final

import msgspec

from potluck.model.blob import BlobRef
from potluck.model.device import Health
from potluck.model.task import EndReason
from potluck.model.task_spec import ScriptSpec
from potluck.server.api.examples.example import NOTHING, Area, Example
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
from potluck.wire.strict_types import (
    StrictFinished,
    StrictRegisterNode,
    StrictReports,
    StrictUsage,
)

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
    "What a machine says that works for a wallet, signed in by its node key: it registers its "
    "devices, waits for leases, beats, reports, and sends logs and files. `docs/protocol.md` "
    "tells the whole story.",
    {
        "register_node": Example(
            "Register a machine and its devices",
            StrictRegisterNode(OFFER, statements=(_STATEMENT,)),
            NodeRegistered(NODE, [DEVICE], 90.0, 20.0, 20.0, server_version="0.1.0"),
            also=(409, 426),
        ),
        "acquire_leases": Example("Wait for work", AcquireLeases(), LeasesGranted([_GRANT])),
        "heartbeat": Example(
            "Beat: renew every lease",
            Heartbeat((LEASE,), 31.5, 22 * _GIB, (_DOING,)),
            HeartbeatAnswer(),
        ),
        "get_input": Example("Fetch an input of a task", answer=b"foo", also=(409, 416)),
        "append_log": Example(
            "Send pieces of a log",
            LogChunk(LEASE, 0, (PackedLogPiece("stdout", b"Hello from a GPU.\n"),)),
            LogAppended(1),
            also=(409,),
        ),
        "report": Example(
            "Report how attempts go",
            _REPORTS,
            ReportAnswers([ReportAnswer(ATTEMPT, True), ReportAnswer(ATTEMPT, True)]),
        ),
        "begin_node_upload": Example(
            "Begin an upload for a task",
            BeginNodeUpload(LEASE, BLOB),
            Upload(UPLOAD, PART_BYTES, 0, False),
            also=(409,),
        ),
        "put_node_part": Example(
            "Send a part for a task",
            b"foo",
            Upload(UPLOAD, PART_BYTES, 1, False),
            also=(400, 409),
        ),
        "finish_node_upload": Example(
            "Finish an upload for a task",
            answer=Upload(UPLOAD, PART_BYTES, 1, True),
            also=(400, 409),
        ),
        "add_files": Example(
            "Hand in the files of an attempt",
            AddFiles(LEASE, (AddedFile("results.csv", b"epoch,loss\n1,0.52\n"),)),
            NOTHING,
            also=(409,),
        ),
        "keep_checkpoint": Example(
            "Keep a checkpoint", KeepCheckpoint(LEASE, BlobRef(BLOB.sha256, 3)), also=(409,)
        ),
        "answer_challenges": Example(
            "Show that devices are here",
            ChallengeAnswers((ChallengeAnswer(GPU, "5e" * 32, bytes(PRODUCT_BYTES)),)),
            ChallengesAnswered([GPU]),
        ),
        "leave": Example("Leave the pool", LeaveNode(is_for_good=True), NOTHING),
    },
)
