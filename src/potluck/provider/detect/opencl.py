"""All devices with an OpenCL driver: GPUs and processors (PoCL).

OpenCL loads every vendor's library into the process. So a child process lists the devices
(`python -m potluck.provider.detect.opencl` prints JSON), and this one parses its output.
"""

import importlib.util
import sys
from collections import Counter
from typing import Any

import msgspec
from msgspec.structs import replace

from potluck.model.device import DeviceKind
from potluck.provider.detect import plausible
from potluck.provider.detect.query_process import Unanswered, output_of, python_module
from potluck.provider.detect.report import RouteAnswer, RouteOutcome, answer_with
from potluck.provider.detect.types import FoundDevice, clean_name, stable_uuid

_NO_DRIVER = "OpenCL finds no driver."
_INSTALL = "Install the OpenCL driver of your card's vendor, or PoCL for the processor."


async def find(timeout_seconds: float) -> RouteAnswer:
    if importlib.util.find_spec("pyopencl") is None:
        hint = "Install it in Potluck's environment: `pip install pyopencl`."
        return RouteAnswer(RouteOutcome.MISSING, detail="pyopencl is not installed.", hint=hint)
    return parse(await output_of(python_module(__name__), timeout_seconds))


def parse(listing: str) -> RouteAnswer:
    try:
        devices = msgspec.json.decode(listing, type=tuple[FoundDevice, ...])
    except (msgspec.DecodeError, UnicodeError) as error:
        raise Unanswered(RouteOutcome.FAILED, f"Its answer is unreadable: {error}.") from error
    if not devices:
        return RouteAnswer(RouteOutcome.NOTHING, detail=_NO_DRIVER, hint=_INSTALL)
    return answer_with(devices[: plausible.MOST_DEVICES])


def _list_devices() -> list[FoundDevice]:
    """In the child process."""
    import pyopencl

    return describe_devices(pyopencl, list_opencl_devices(pyopencl))


def list_opencl_devices(pyopencl: Any) -> list[Any]:
    """In the child: all devices. A driver that fails does not hide the others."""
    try:
        platforms = pyopencl.get_platforms()
    except pyopencl.LogicError:
        # The loader raises this if no driver is installed.
        return []
    devices: list[Any] = []
    for platform in platforms:
        try:
            devices += platform.get_devices()
        except pyopencl.Error:
            continue
    return devices


def describe_devices(pyopencl: Any, devices: list[Any]) -> list[FoundDevice]:
    """In the same order; identical devices of one platform are numbered."""
    counts: Counter[FoundDevice] = Counter()
    numbered = []
    for device in devices:
        described = _describe(pyopencl, device)
        numbered.append(_named(replace(described, ordinal=counts[described])))
        counts[described] += 1
    return numbered


def _named(device: FoundDevice) -> FoundDevice:
    return replace(device, opencl_uuid=stable_uuid(device))


def device_named(pyopencl: Any, opencl_uuid: str) -> Any | None:
    """In a child: the device object, to compute on it."""
    devices = list_opencl_devices(pyopencl)
    named = zip(describe_devices(pyopencl, devices), devices, strict=True)
    return next(
        (
            device
            for device_description, device in named
            if device_description.opencl_uuid == opencl_uuid
        ),
        None,
    )


def _describe(pyopencl: Any, device: Any) -> FoundDevice:
    is_cpu = bool(device.type & pyopencl.device_type.CPU)
    return FoundDevice(
        kind=DeviceKind.CPU if is_cpu else DeviceKind.GPU,
        vendor=clean_name(device.vendor),
        model=clean_name(device.name),
        memory_bytes=plausible.memory_bytes(device.global_mem_size) or 0,
        compute_units=min(device.max_compute_units, 1_000_000),
        driver=clean_name(f"{device.platform.name} {device.driver_version}"),
        interface="opencl",
        bus_address="" if is_cpu else _bus_address(pyopencl, device),
        route="opencl",
        platform=clean_name(device.platform.name),
    )


def _bus_address(pyopencl: Any, device: Any) -> str:
    """From the vendor's extension, if it has one."""
    try:
        if "cl_nv_device_attribute_query" in device.extensions:
            slot = device.pci_slot_id_nv
            place = f"{device.pci_bus_id_nv:02x}:{slot >> 3:02x}.{slot & 7:x}"
            return f"{_domain(pyopencl, device)}{place}"
        if "cl_amd_device_attribute_query" in device.extensions:
            topology = device.topology_amd
            return f"{topology.bus & 0xFF:02x}:{topology.device:02x}.{topology.function:x}"
    except (pyopencl.Error, AttributeError):
        return ""
    return ""


def _domain(pyopencl: Any, device: Any) -> str:
    """Empty with older drivers."""
    try:
        return f"{device.pci_domain_id_nv:04x}:"
    except (pyopencl.Error, AttributeError):
        return ""


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(_list_devices()))
