"""Checks the devices: each detection route, the drivers, and whether tasks can use them."""

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from potluck.cli.doctor.finding import CheckedMachine, Finding, failed, passed, skipped, warned
from potluck.model.device import WHOLE_DEVICE_MILLI, DeviceDescription, DeviceKind
from potluck.model.ids import DeviceId
from potluck.model.units import show_bytes, show_count

if TYPE_CHECKING:
    from potluck.provider.detect.report import Detection, RouteTrial

_BUS = Path("/sys/bus/pci/devices")
_DISPLAY_CLASS = "0x03"  # PCI class of display controllers
_NVIDIA = "0x10de"
# Drivers need some time to wake sleeping cards.
_DETECT_SECONDS = 10.0
_MEASURE_SECONDS = 10.0


def check_devices(machine: CheckedMachine) -> Iterator[Finding]:
    from potluck.provider.detect.devices import detect_devices

    detection = asyncio.run(detect_devices(machine.directory, _DETECT_SECONDS))
    yield from (check_route(trial) for trial in detection.tried)
    yield from check_driverless_cards(detection.tried, _BUS)
    yield from (_check_device(device) for device in detection.devices)
    yield from _check_device_nodes(detection)
    yield from (_check_computing(device, detection) for device in detection.devices)


def check_route(trial: "RouteTrial") -> Finding:
    """The result of one vendor's library or tool."""
    from potluck.provider.detect.report import RouteOutcome

    name, needed = f"route: {trial.route}", "answers, if the machine has such a device"
    found = f"{trial.detail or show_count(trial.devices, 'device')} ({trial.seconds:.1f} s)"
    match trial.outcome:
        case RouteOutcome.FOUND:
            return (
                warned(name, found, needed, trial.hint)
                if trial.hint
                else passed(name, found, needed)
            )
        case RouteOutcome.FAILED | RouteOutcome.TIMED_OUT:
            return failed(name, found, needed, trial.hint)
        case RouteOutcome.NOTHING | RouteOutcome.MISSING:
            why = trial.detail or "no such device"
            return replace(skipped(name, why, needed), fix=trial.hint)


def check_driverless_cards(trials: Sequence["RouteTrial"], bus: Path) -> Iterator[Finding]:
    """Finds NVIDIA cards without a driver on the PCI bus; detection itself needs the driver."""
    if any(trial.route == "nvidia" and trial.devices for trial in trials):
        return
    for place in sorted(bus.glob("*")):
        is_card = _read(place / "class").startswith(_DISPLAY_CLASS)
        if is_card and _read(place / "vendor") == _NVIDIA:
            found = f"an NVIDIA card at {place.name} without a driver"
            fix = "Install NVIDIA's driver: sudo apt install nvidia-driver (or your system's)"
            yield failed("undriven card", found, "a driver for each card", fix)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _check_device(device: DeviceDescription) -> Finding:
    through = f"{show_bytes(device.memory_bytes)}, through {device.interface}"
    found, needed = f"{device.kind.upper()} {device.model}, {through}", "a GPU that tasks can use"
    if device.kind is DeviceKind.CPU:
        fix = "If this machine has a GPU, install its driver; see the routes above."
        return warned("device", f"only {found}", needed, fix)
    return passed("device", found, needed)


def _check_device_nodes(detection: "Detection") -> Iterator[Finding]:
    """Whether tasks can open the device nodes in /dev."""
    from potluck.provider.expose.expose import expose
    from potluck.wire.provider import GrantedDevice

    cards = [card for card in detection.devices if card.kind is DeviceKind.GPU]
    granted = [GrantedDevice(DeviceId(""), card.uuid, WHOLE_DEVICE_MILLI) for card in cards]
    problems = expose(granted, detection.found).problems
    needed = "tasks may open them"
    for problem in problems:
        yield failed("device nodes", problem, needed, _quoted_command(problem))
    if cards and not problems:
        yield passed("device nodes", f"accessible for {show_count(len(cards), 'card')}", needed)


def _quoted_command(problem: str) -> str:
    """The command in backquotes in the sentence, if there is one."""
    parts = problem.split("`")
    return parts[1] if len(parts) == 3 else "Load the device's driver, or reinstall it."


def _check_computing(device: DeviceDescription, detection: "Detection") -> Finding:
    """Measures each time: a device that worked before may have failed since."""
    from potluck.provider.measure.measure import measure

    name, needed = "computing", "produces a result"
    detected_device = detection.found[device.uuid]
    if not detected_device.opencl_uuid:
        return skipped(name, f"OpenCL does not know {device.model}", needed)
    with tempfile.TemporaryDirectory() as directory:
        measured = asyncio.run(measure(device, detected_device, Path(directory), _MEASURE_SECONDS))
    if measured is None:
        fix = "Reinstall its vendor's OpenCL driver; then: clinfo"
        return warned(name, f"{device.model} gave no result through OpenCL", needed, fix)
    speed = f"{measured.memory_bytes_per_second / 10**9:.3g} GB/s"
    rate = f"{measured.float_operations_per_second / 10**9:.3g} Gflop/s"
    return passed(name, f"{device.model}: {speed}, {rate}", needed)
