"""NVIDIA GPUs, as `nvidia-smi` lists them."""

import shutil

from potluck.model.device import DeviceKind
from potluck.model.task import MIB
from potluck.provider.detect.child import output_of
from potluck.provider.detect.found import FoundDevice, told

_FIELDS = ("uuid", "name", "memory.total", "driver_version", "pci.bus_id")


async def find(timeout_seconds: float) -> list[FoundDevice]:
    if shutil.which("nvidia-smi") is None:
        return []
    query = f"--query-gpu={','.join(_FIELDS)}"
    command = ("nvidia-smi", query, "--format=csv,noheader,nounits")
    return parse(await output_of(command, timeout_seconds))


def parse(listing: str) -> list[FoundDevice]:
    rows = (line.split(", ") for line in listing.splitlines())
    return [_device(*row) for row in rows if len(row) == len(_FIELDS)]


def _device(uuid: str, name: str, memory_mib: str, driver: str, bus: str) -> FoundDevice:
    return FoundDevice(
        kind=DeviceKind.GPU,
        vendor="NVIDIA",
        model=told(name),
        memory_bytes=int(memory_mib) * MIB if memory_mib.isdigit() else 0,
        driver=told(driver),
        interface="cuda",
        uuid=told(uuid),
        bus_address=bus.strip(),
    )
