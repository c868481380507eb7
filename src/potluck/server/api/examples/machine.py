"""The machine in all examples: a node with one GPU, as it registers and as clients see it."""

from typing import Final

from potluck.model.device import Availability, DeviceKind, Health, Standing
from potluck.model.node import NodeState
from potluck.model.terms import TaskKind
from potluck.server.api.examples.names import ATTEMPT, DEVICE, GPU, NODE, TASK, at
from potluck.wire.consumer import DeviceUse, DeviceView, NodeView, PoolDevice
from potluck.wire.device_status import DeviceSample
from potluck.wire.strict_types import (
    StrictDevice,
    StrictMeasured,
    StrictNode,
    StrictSandboxReport,
    StrictTerms,
)

_GIB = 2**30
SANDBOX: Final = StrictSandboxReport(
    driver="bwrap",
    memory="cgroup v2",
    processes="cgroup v2",
    cpu="cgroup v2",
    disk="quota",
    network="namespaces",
    syscalls="seccomp",
    user="namespaces",
    kinds=(TaskKind.SCRIPT, TaskKind.FUNCTION, TaskKind.COMMAND),
)
DESCRIPTION: Final = StrictDevice(
    kind=DeviceKind.GPU,
    uuid=GPU,
    vendor="NVIDIA",
    model="NVIDIA GeForce RTX 4090",
    memory_bytes=24 * _GIB,
    compute_units=128,
    driver="570.86.15",
    interface="cuda",
    compute_capability="8.9",
    pcie="4.0 x16",
    power_watts=450,
    measured=StrictMeasured(910_000_000_000, 61_000_000_000_000, 30_000_000_000_000, "opencl"),
    terms=StrictTerms(price_micro_per_hour=250_000, is_reclaimable=True),
)
OFFER: Final = StrictNode(
    name="attic",
    platform="Linux x86_64",
    python_version="3.11.2",
    potluck_version="0.2.0",
    cores=16,
    memory_bytes=64 * _GIB,
    disk_bytes=500 * _GIB,
    sandbox=SANDBOX,
    devices=(DESCRIPTION,),
    labels=("region=eu",),
)
SAMPLE: Final = DeviceSample(at(9, 42), Health.WELL, 97.0, 66.0, 18 * _GIB, 412.5, 0)
NODE_VIEW: Final = NodeView(
    NODE,
    OFFER.name,
    NodeState.ONLINE,
    OFFER.platform,
    OFFER.potluck_version,
    OFFER.cores,
    OFFER.memory_bytes,
    OFFER.disk_bytes,
    SANDBOX,
    [DeviceView(DEVICE, DESCRIPTION, 500, sample=SAMPLE)],
    is_mine=False,
    heartbeat_at=at(9, 42),
    load_percent=31.5,
    memory_used_bytes=22 * _GIB,
    python_version=OFFER.python_version,
)
POOL_DEVICE: Final = PoolDevice(
    DEVICE,
    NODE,
    OFFER.name,
    NodeState.ONLINE,
    DESCRIPTION,
    Standing.BOUND,
    free_milli=500,
    free_memory_bytes=12 * _GIB,
    is_mine=False,
    uses=[DeviceUse(500, 12 * _GIB, ATTEMPT, TASK)],
    availability=Availability.AVAILABLE,
    sample=SAMPLE,
)
