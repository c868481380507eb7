"""The devices of this machine: where they were looked for, and whether tasks can use them."""

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from potluck.cli.doctor.finding import Finding, Patient, odd, skipped, well, wrong
from potluck.cli.terminal.units import show_bytes, show_count
from potluck.model.device import WHOLE_DEVICE_MILLI, DeviceDescription, DeviceKind
from potluck.model.ids import DeviceId

if TYPE_CHECKING:
    from potluck.provider.detect.report import Detection, RouteTrial

_BUS = Path("/sys/bus/pci/devices")
_DISPLAYS = "0x03"  # the class of all that could draw, screen or not
_NVIDIA = "0x10de"
# Drivers of cards that sleep take a while to wake them.
_DETECT_SECONDS = 10.0
_MEASURE_SECONDS = 10.0


def look_at_devices(patient: Patient) -> Iterator[Finding]:
    from potluck.provider.detect.devices import detect_devices

    detection = asyncio.run(detect_devices(patient.directory, _DETECT_SECONDS))
    yield from (of_route(tried) for tried in detection.tried)
    yield from undriven(detection.tried, _BUS)
    yield from (_device(device) for device in detection.devices)
    yield from _reach(detection)
    yield from (_computes(device, detection) for device in detection.devices)


def of_route(tried: "RouteTrial") -> Finding:
    """What asking one vendor's library or tool came to."""
    from potluck.provider.detect.report import RouteOutcome

    name, needed = f"route: {tried.route}", "answers, where such a device is here"
    found = f"{tried.detail or show_count(tried.devices, 'device')} ({tried.seconds:.1f} s)"
    match tried.outcome:
        case RouteOutcome.FOUND:
            return odd(name, found, needed, tried.hint) if tried.hint else well(name, found, needed)
        case RouteOutcome.FAILED | RouteOutcome.TIMED_OUT:
            return wrong(name, found, needed, tried.hint)
        case RouteOutcome.NOTHING | RouteOutcome.MISSING:
            why = tried.detail or "no such device here"
            return replace(skipped(name, why, needed), fix=tried.hint)


def undriven(tried: Sequence["RouteTrial"], bus: Path) -> Iterator[Finding]:
    """NVIDIA's cards are known by their driver alone; without it, the bus still tells of them."""
    if any(each.route == "nvidia" and each.devices for each in tried):
        return
    for place in sorted(bus.glob("*")):
        is_card = _read(place / "class").startswith(_DISPLAYS)
        if is_card and _read(place / "vendor") == _NVIDIA:
            found = f"an NVIDIA card at {place.name}, and nothing that drives it"
            fix = "Install NVIDIA's driver: sudo apt install nvidia-driver (or your system's)"
            yield wrong("undriven card", found, "a driver for each card", fix)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _device(device: DeviceDescription) -> Finding:
    through = f"{show_bytes(device.memory_bytes)}, through {device.interface}"
    found, needed = f"{device.kind.upper()} {device.model}, {through}", "a GPU that tasks can use"
    if device.kind is DeviceKind.CPU:
        fix = "Has this machine a GPU? Then install its driver, and look at the routes above."
        return odd("device", f"only {found}", needed, fix)
    return well("device", found, needed)


def _reach(detection: "Detection") -> Iterator[Finding]:
    """Whether tasks could open the devices, as far as their nodes in /dev tell."""
    from potluck.provider.expose.expose import expose
    from potluck.wire.provider import GrantedDevice

    cards = [each for each in detection.devices if each.kind is DeviceKind.GPU]
    granted = [GrantedDevice(DeviceId(""), each.uuid, WHOLE_DEVICE_MILLI) for each in cards]
    problems = expose(granted, detection.found).problems
    needed = "tasks may open them"
    for problem in problems:
        yield wrong("device nodes", problem, needed, _command(problem))
    if cards and not problems:
        yield well("device nodes", f"of {show_count(len(cards), 'card')} are open", needed)


def _command(problem: str) -> str:
    """The command that the sentence names, to be copied; else the sentence is all there is."""
    parts = problem.split("`")
    return parts[1] if len(parts) == 3 else "Load the driver of the device, or install it anew."


def _computes(device: DeviceDescription, detection: "Detection") -> Finding:
    """Measured anew each time: what once worked may not any more."""
    from potluck.provider.measure.measure import measure

    name, needed = "computing", "something comes out"
    found = detection.found[device.uuid]
    if not found.opencl_uuid:
        return skipped(name, f"OpenCL does not know {device.model}", needed)
    with tempfile.TemporaryDirectory() as nowhere:
        measured = asyncio.run(measure(device, found, Path(nowhere), _MEASURE_SECONDS))
    if measured is None:
        fix = "Install the OpenCL driver of its vendor anew; then: clinfo"
        return odd(name, f"{device.model} gave no result through OpenCL", needed, fix)
    speed = f"{measured.memory_bytes_per_second / 10**9:.3g} GB/s"
    rate = f"{measured.float_operations_per_second / 10**9:.3g} Gflop/s"
    return well(name, f"{device.model}: {speed}, {rate}", needed)
