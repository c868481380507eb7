"""The task in all examples, as requested and as shown."""

from typing import Final

import msgspec
from msgspec.structs import replace

from potluck.model.blob import BlobRef
from potluck.model.device import DeviceKind
from potluck.model.lease import AttemptState, Lease
from potluck.model.task import EndReason, Limits, Requirements, TaskState
from potluck.model.usage import Usage
from potluck.server.api.examples.names import (
    ATTEMPT,
    DEVICE,
    LEASE_TOKEN,
    NODE,
    OTHER_TASK,
    SHA256,
    TASK,
    at,
)
from potluck.wire.consumer import AttemptDevice, AttemptView, TaskView
from potluck.wire.strict_types import (
    StrictLimits,
    StrictRequirements,
    StrictScriptSpec,
    StrictTaskRequest,
)

_GIB = 2**30
SOURCE: Final = 'print("Hello from a GPU.")\n'
REQUEST: Final = StrictTaskRequest(
    StrictScriptSpec("hello.py", SOURCE),
    name="hello",
    requirements=StrictRequirements(
        device_kind=DeviceKind.GPU,
        device_memory_bytes=24 * _GIB,
        device_model="RTX 40*",
        max_price_micro_per_hour=500_000,
    ),
    limits=StrictLimits(run_seconds=600.0),
)
LEASE: Final = Lease(ATTEMPT, LEASE_TOKEN)
BLOB: Final = BlobRef(SHA256, 3)
USAGE: Final = Usage(
    prepare_seconds=0.4,
    run_seconds=12.5,
    cpu_seconds=11.9,
    memory_peak_bytes=402_653_184,
    log_bytes=18,
    device_seconds=12.1,
    energy_joules=4_900.0,
)
RAN: Final = AttemptView(
    ATTEMPT,
    1,
    AttemptState.SUCCEEDED,
    NODE,
    "attic",
    [AttemptDevice(DEVICE, "NVIDIA GeForce RTX 4090", 1000, 24 * _GIB)],
    at(9, 40, 2),
    at(9, 40, 3),
    at(9, 40, 16),
    0,
    EndReason.COMPLETED,
    usage=USAGE,
    charge_micro=868,
)
QUEUED: Final = TaskView(
    TASK,
    "hello",
    "script",
    TaskState.QUEUED,
    0,
    at(9, 40),
    at(9, 40),
    msgspec.convert(REQUEST.requirements, Requirements, from_attributes=True),
    msgspec.convert(REQUEST.limits, Limits, from_attributes=True),
    version=1,
    phase="queued",
)
DONE: Final = replace(
    QUEUED,
    state=TaskState.SUCCEEDED,
    updated_at=at(9, 40, 16),
    version=4,
    phase="succeeded",
    exit_code=0,
    reason=EndReason.COMPLETED,
    started_at=at(9, 40, 3),
    finished_at=at(9, 40, 16),
    charge_micro=868,
    attempts=[RAN],
    attempt_count=1,
    kept_until=at(9, 40, 16).replace(month=12),
)
CANCELLED: Final = replace(
    QUEUED,
    state=TaskState.CANCELLED,
    updated_at=at(9, 41),
    version=2,
    phase="cancelled",
    reason=EndReason.CANCELLED,
    finished_at=at(9, 41),
)
AGAIN: Final = replace(QUEUED, id=OTHER_TASK, retry_of=TASK)
