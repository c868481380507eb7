"""What this machine offers to the pool, described for the server."""

import os
import platform
from pathlib import Path

import psutil
from msgspec.structs import replace

import potluck
from potluck.model.device import DeviceDescription
from potluck.model.node import NodeDescription, SandboxReport
from potluck.provider.settings import ProviderSettings

# A task's disk lives in memory, so both shares together leave a fifth for the owner.
MEMORY_SHARE = 0.6
DISK_SHARE = 0.2

# A container's own limit, where there is one: cgroup v2, then v1.
_LIMIT_FILES = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def describe_node(
    settings: ProviderSettings, devices: tuple[DeviceDescription, ...], sandbox: SandboxReport
) -> NodeDescription:
    memory_bytes = usable_memory_bytes()
    return NodeDescription(
        name=settings.name,
        platform=f"{platform.system()} {platform.release()} {platform.machine()}"[:200],
        python_version=platform.python_version(),
        potluck_version=potluck.__version__,
        cores=settings.cores or os.cpu_count() or 1,
        memory_bytes=settings.memory_bytes or int(memory_bytes * MEMORY_SHARE),
        disk_bytes=settings.disk_bytes or int(memory_bytes * DISK_SHARE),
        sandbox=sandbox,
        devices=tuple(_shared(device, settings) for device in devices),
        labels=settings.labels,
    )


def _shared(device: DeviceDescription, settings: ProviderSettings) -> DeviceDescription:
    terms = replace(
        device.terms,
        price_micro_per_hour=settings.price_micro_per_hour,
        shares_accounts=settings.share_between_accounts,
    )
    return replace(device, terms=terms)


def usable_memory_bytes() -> int:
    """The machine's memory, or what the container around us may use of it."""
    limits = (path.read_text().strip() for path in _LIMIT_FILES if path.exists())
    total_bytes: int = psutil.virtual_memory().total
    return min([total_bytes, *(int(each) for each in limits if each.isdigit())])
