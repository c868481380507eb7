"""NVIDIA GPUs, as `nvidia-smi` lists them."""

import re
import shutil

from potluck.model.device import DeviceKind
from potluck.model.task import MIB
from potluck.provider.detect.child import output_of
from potluck.provider.detect.found import FoundDevice, told

_FIELDS = ("uuid", "name", "memory.total", "driver_version", "pci.bus_id")
# Drivers before 510 do not know it, and then say nothing at all.
_NEWER = "compute_cap"


async def find(timeout_seconds: float) -> list[FoundDevice]:
    if shutil.which("nvidia-smi") is None:
        return []
    for fields in ((*_FIELDS, _NEWER), _FIELDS):
        query = f"--query-gpu={','.join(fields)}"
        command = ("nvidia-smi", query, "--format=csv,noheader,nounits")
        if found := parse(await output_of(command, timeout_seconds)):
            return found
    return []


def parse(listing: str) -> list[FoundDevice]:
    rows = (line.split(", ") for line in listing.splitlines())
    return [_device(*row) for row in rows if len(row) in (len(_FIELDS), len(_FIELDS) + 1)]


def _device(
    uuid: str, name: str, memory_mib: str, driver: str, bus: str, capability: str = ""
) -> FoundDevice:
    numbered = re.fullmatch(r"\d{1,2}\.\d{1,2}", capability.strip(), re.ASCII)
    return FoundDevice(
        kind=DeviceKind.GPU,
        vendor="NVIDIA",
        model=told(name),
        memory_bytes=int(memory_mib) * MIB if memory_mib.isdigit() else 0,
        driver=told(driver),
        interface="cuda",
        uuid=told(uuid),
        bus_address=bus.strip(),
        compute_capability=numbered[0] if numbered else None,
    )
