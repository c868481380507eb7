"""Everything that has an OpenCL driver, graphics cards and processors (PoCL) alike.

OpenCL loads the libraries of every vendor into the process that asks. So a child process asks
(`python -m potluck.provider.detect.opencl` prints JSON), and this one only reads the answer.
"""

import importlib.util
import sys
from typing import Any

import msgspec
import structlog

from potluck.model.device import DeviceKind
from potluck.provider.detect.child import output_of
from potluck.provider.detect.found import FoundDevice, told

log = structlog.get_logger()


async def find(timeout_seconds: float) -> list[FoundDevice]:
    if importlib.util.find_spec("pyopencl") is None:
        return []
    # -P keeps the working directory, which may be anybody's, off the child's import path.
    command = (sys.executable, "-P", "-m", __name__)
    return parse(await output_of(command, timeout_seconds))


def parse(listing: str) -> list[FoundDevice]:
    if not listing:
        return []
    try:
        return msgspec.json.decode(listing, type=list[FoundDevice])
    except msgspec.DecodeError as error:
        log.warning("detection answered nonsense", route="opencl", error=str(error))
        return []


def _list_devices() -> list[FoundDevice]:
    """In the child: asks the drivers themselves."""
    import pyopencl

    return [describe(pyopencl, device) for device in driven(pyopencl)]


def driven(pyopencl: Any) -> list[Any]:
    """In the child: every device that has a driver."""
    try:
        platforms = pyopencl.get_platforms()
    except pyopencl.LogicError:
        # The loader's way of saying that no driver is installed.
        return []
    return [device for one in platforms for device in one.get_devices()]


def describe(pyopencl: Any, device: Any) -> FoundDevice:
    is_cpu = bool(device.type & pyopencl.device_type.CPU)
    return FoundDevice(
        kind=DeviceKind.CPU if is_cpu else DeviceKind.GPU,
        vendor=told(device.vendor),
        model=told(device.name),
        memory_bytes=device.global_mem_size,
        compute_units=device.max_compute_units,
        driver=told(f"{device.platform.name} {device.driver_version}"),
        interface="opencl",
        bus_address="" if is_cpu else _bus_address(pyopencl, device),
    )


def _bus_address(pyopencl: Any, device: Any) -> str:
    """Each vendor tells it in an extension of its own; one that has none is no error."""
    try:
        if "cl_nv_device_attribute_query" in device.extensions:
            slot = device.pci_slot_id_nv
            return f"{device.pci_bus_id_nv:02x}:{slot >> 3:02x}.{slot & 7:x}"
        if "cl_amd_device_attribute_query" in device.extensions:
            place = device.topology_amd
            return f"{place.bus & 0xFF:02x}:{place.device:02x}.{place.function:x}"
    except (pyopencl.Error, AttributeError):
        return ""
    return ""


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(_list_devices()))
