"""Combines the answers of all routes: each card once, and the CPU if there is no card."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import structlog
from msgspec.structs import replace

from potluck.model.device import DeviceDescription, DeviceKind
from potluck.provider.detect import cpu
from potluck.provider.detect.dedupe import merge_devices
from potluck.provider.detect.plausible import MOST_DEVICES
from potluck.provider.detect.query_process import Unanswered
from potluck.provider.detect.report import Detection, RouteAnswer, RouteOutcome, RouteTrial
from potluck.provider.detect.routes import Route, routes
from potluck.provider.detect.types import FoundDevice, stable_uuid

log = structlog.get_logger()


async def detect_devices(data_directory: Path, timeout_seconds: float) -> Detection:
    """The devices of this node: at least one, no card twice. Never raises."""
    names = routes()
    results = await asyncio.gather(*(_try(route, timeout_seconds) for route in names.values()))
    answers = dict(zip(names, (answer for answer, _ in results), strict=True))
    by_opencl = answers["opencl"].devices
    by_vendor = [
        device for name, answer in answers.items() if name != "opencl" for device in answer.devices
    ]
    cards = merge_devices(by_vendor, by_opencl)
    unusable = [card for card in cards if _is_out_of_reach(card)]
    trials = (
        _trial(name, answer, seconds, unusable)
        for (name, answer), (_, seconds) in zip(answers.items(), results, strict=True)
    )
    usable = [card for card in cards if not _is_out_of_reach(card)]
    chosen = (usable or [through_opencl(cpu.find(), by_opencl)])[:MOST_DEVICES]
    by_uuid = {stable_uuid(device, _salt(device, data_directory)): device for device in chosen}
    devices = tuple(_describe(uuid, device) for uuid, device in by_uuid.items())
    return Detection(devices, by_uuid, tuple(trials))


def through_opencl(processor: FoundDevice, by_opencl: Iterable[FoundDevice]) -> FoundDevice:
    """Adds OpenCL to the processor, if there is a driver for it.

    The driver's name and memory size are not used: its memory is what happens to be free.
    """
    for device in by_opencl:
        if device.kind is DeviceKind.CPU:
            return replace(
                processor,
                interface=device.interface,
                driver=device.driver,
                opencl_uuid=device.opencl_uuid,
            )
    return processor


async def _try(route: Route, timeout_seconds: float) -> tuple[RouteAnswer, float]:
    began = time.monotonic()
    try:
        answer = await route(timeout_seconds)
    except Unanswered as error:
        answer = RouteAnswer(error.outcome, detail=error.detail, hint=_HINTS.get(error.outcome, ""))
    return answer, time.monotonic() - began


_HINTS = {
    RouteOutcome.TIMED_OUT: "A driver hangs; restart the machine, or read the kernel's log.",
    RouteOutcome.FAILED: "A driver or its library is broken; reinstall it.",
}


def _is_out_of_reach(card: FoundDevice) -> bool:
    """A card that only OpenCL could use, and OpenCL does not know it."""
    return card.interface == "opencl" and not card.opencl_uuid


def _trial(
    route: str, answer: RouteAnswer, seconds: float, unusable: Sequence[FoundDevice]
) -> RouteTrial:
    """Also logs a warning if devices may be missing."""
    detail, hint = answer.detail, answer.hint
    if models := ", ".join(device.model for device in unusable if device.route == route):
        detail = f"Not offered, because tasks could not compute on it: {models}."
        hint = "Install ROCm, or the OpenCL driver of its vendor."
    if answer.outcome in (RouteOutcome.FAILED, RouteOutcome.TIMED_OUT) or models:
        log.warning("devices may be missing", route=route, detail=detail, hint=hint)
    return RouteTrial(route, answer.outcome, detail, hint, round(seconds, 3), len(answer.devices))


def _salt(device: FoundDevice, data_directory: Path) -> str:
    """All providers on a machine share its CPU; each data directory offers it as a device."""
    return str(data_directory) if device.kind is DeviceKind.CPU else ""


def _describe(uuid: str, device: FoundDevice) -> DeviceDescription:
    return DeviceDescription(
        kind=device.kind,
        uuid=uuid,
        vendor=device.vendor,
        model=device.model,
        memory_bytes=device.memory_bytes,
        compute_units=device.compute_units,
        driver=device.driver,
        interface=device.interface,
        compute_capability=device.compute_capability,
        is_partition=device.is_partition,
        parent_uuid=device.parent_uuid,
        pcie=device.pcie,
        power_watts=device.power_watts,
    )
